// Deep links: what the reader looks at stands in the part of the address after #, and the address leads back to it.
(() => {
  "use strict";
  const page = window.miniray;
  if (!page || location.protocol === "about:") return; // inside a notebook there is no address
  const { byId } = page;
  const FILTERS = ["state", "node", "worker", "function"];
  let written = null,
    waiting = 0;

  function text() {
    const parts = new URLSearchParams(),
      view = page.view();
    if (view[0] !== page.whole[0] || view[1] !== page.whole[1]) parts.set("t", view.map(Math.round).join("-"));
    const row = page.selected();
    if (row >= 0) parts.set("task", `${page.number[row]}.${page.attempt[row]}`);
    if (byId("search").value) parts.set("q", byId("search").value);
    const chosen = page.filters.get();
    for (const key of FILTERS) if (chosen[key] !== "") parts.set(key, chosen[key]);
    return parts.toString();
  }
  function write() {
    // a moment after the last change: browsers refuse very many changes of the address
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      const now = text();
      if (now === (written ?? "")) return;
      written = now;
      history.replaceState(null, "", now ? "#" + now : location.pathname + location.search);
    }, 300);
  }
  function read() {
    const hash = location.hash.slice(1);
    if (!hash || hash === written) return;
    written = hash;
    const parts = new URLSearchParams(hash);
    byId("search").value = parts.get("q") || "";
    page.filters.set(Object.fromEntries(FILTERS.map((key) => [key, parts.get(key) || ""])));
    const [task, attempt] = (parts.get("task") || "").split(".").map(Number);
    let row = -1;
    for (let i = 0; task && i < page.N; i++) if (page.number[i] === task && page.attempt[i] === attempt) row = i;
    page.select(row, false);
    const [from, to] = (parts.get("t") || "").split("-").map(Number);
    if (to > from) page.look(from, to);
  }
  read();
  addEventListener("hashchange", read);
  page.onDraw(write);
})();
