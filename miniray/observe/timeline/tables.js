// Tables that can be sorted by a click on the head of a column.
(() => {
  "use strict";
  for (const table of document.querySelectorAll(".sortable table")) {
    const heads = [...table.querySelectorAll("th")],
      body = table.tBodies[0];
    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.textContent = head.textContent;
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") !== "descending";
        for (const other of heads) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const key = (row) => {
          const cell = row.cells[column];
          return cell.dataset.by === undefined ? cell.textContent.trim() : Number(cell.dataset.by);
        };
        const order = (a, b) => (typeof a === "number" ? a - b : a.localeCompare(b));
        const rows = [...body.rows].sort((a, b) => order(key(a), key(b)) * (down ? -1 : 1));
        body.append(...rows);
      });
    });
  }
})();
