// The filters above the lanes: by state, node, worker and function. Attempts that they leave out are dimmed, and lanes
// that they leave out are not shown.
(() => {
  "use strict";
  const page = window.miniray;
  if (!page) return;
  const { D, byId, html } = page;
  const boxes = { state: byId("by-state"), node: byId("by-node"), worker: byId("by-worker"), function: byId("by-function") };
  const fill = (box, entries) => {
    for (const [value, text] of entries) box.append(html("option", text, { value }));
    box.parentElement.hidden = entries.length < 2;
  };
  const seen = new Set(page.outcome);
  fill(boxes.state, D.outcomes.map((text, number) => [number, text]).filter(([number]) => seen.has(number)));
  fill(boxes.node, D.nodes.map((node) => [node.number, `${node.name}${node.alive ? "" : ", dead"}`]));
  fill(boxes.worker, D.lanes.map((lane, number) => [number, lane.title]).slice(0, 2000));
  fill(boxes.function, D.functions.map((text, number) => [number, text]).slice(0, 2000));

  function apply() {
    const wanted = {};
    for (const key in boxes) wanted[key] = boxes[key].value === "" ? null : Number(boxes[key].value);
    const { state, node, worker, function: which } = wanted;
    const any = state !== null || node !== null || worker !== null || which !== null;
    page.setFilter(
      any
        ? (i) =>
            (state === null || page.outcome[i] === state) &&
            (which === null || D.function[page.name[i]] === which) &&
            (worker === null || page.lane[i] === worker) &&
            (node === null || (page.lane[i] >= 0 && D.lanes[page.lane[i]].node === node))
        : null,
      (one, of) =>
        (node === null || of.number === node) &&
        (worker === null || one.key === worker || (one.node && one.node.number === D.lanes[worker].node)),
    );
  }
  for (const key in boxes) boxes[key].addEventListener("change", apply);
  byId("clear").addEventListener("click", () => {
    for (const key in boxes) boxes[key].value = "";
    byId("search").value = "";
    apply();
  });
  page.filters = {
    get: () => Object.fromEntries(Object.entries(boxes).map(([key, box]) => [key, box.value])),
    set: (values) => {
      for (const key in boxes) boxes[key].value = values[key] ?? "";
      apply();
    },
  };
})();
