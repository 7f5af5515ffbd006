// The flame graph of a profile: choose a state and a name, search, zoom, and read the facts of a bar.
(() => {
  "use strict";
  const { digits, html, bars } = window.minirayDrawing;
  const byId = (id) => document.getElementById(id);
  const D = JSON.parse(byId("data").textContent);
  if (!D.stacks.length) return;
  const COLOURS = 8;
  const WAIT = -1; // the place of the time that a function waited
  const state = { by: "both", name: "", query: "", zoom: [] };
  let root, // the node of the whole profile; a node's key is the number of a name or a place
    top, // the node that is as wide as the page
    drawn = [],
    focused = null;

  const duration = (count) => {
    const s = count / 1e6;
    for (const [unit, size] of [
      ["s", 1],
      ["ms", 1e-3],
    ])
      if (s >= size * 0.9995) return digits(s / size) + " " + unit;
    return digits(s * 1e6) + " \u00b5s";
  };
  const node = (key, parent) => ({ key, parent, running: 0, waiting: 0, own: 0, lines: new Map(), children: new Map() });
  const total = (one) => one.running + one.waiting;
  function build() {
    root = node(null, null);
    for (const [name, path, running, waiting, lines] of D.stacks) {
      if (state.name !== "" && D.names[name] !== state.name) continue;
      const ran = state.by === "waiting" ? 0 : running,
        waited = state.by === "running" ? 0 : waiting;
      if (!ran && !waited) continue;
      let at = root;
      for (const key of [null, "n" + name, ...path]) {
        if (key !== null) {
          if (!at.children.has(key)) at.children.set(key, node(key, at));
          at = at.children.get(key);
        }
        at.running += ran;
        at.waiting += waited;
      }
      at.own += ran;
      for (const [line, seconds] of lines) at.lines.set(line, (at.lines.get(line) || 0) + seconds);
      if (waited) {
        if (!at.children.has(WAIT)) at.children.set(WAIT, node(WAIT, at));
        at.children.get(WAIT).waiting += waited;
      }
    }
    top = root;
    const kept = [];
    for (const key of state.zoom) {
      const next = top.children.get(key);
      if (!next) break;
      kept.push(key);
      top = next;
    }
    state.zoom = kept;
  }
  const isName = (one) => typeof one.key === "string";
  const label = (one) =>
    one.key === WAIT ? "waiting" : isName(one) ? D.names[+one.key.slice(1)] : D.places[one.key][0];
  const where = (one) => (one.key === WAIT || isName(one) ? "" : `${D.places[one.key][1]}:${D.places[one.key][2]}`);
  const share = (one) => digits((100 * total(one)) / Math.max(1, total(root))) + " %";
  function said(one) {
    const times = [one.running && `ran ${duration(one.running)}`, one.waiting && `waited ${duration(one.waiting)}`];
    return `${label(one)}: ${times.filter(Boolean).join(", ")} (${share(one)})`;
  }
  function matches(one) {
    const words = state.query.toLowerCase();
    return words !== "" && one.key !== WAIT && (label(one) + " " + where(one)).toLowerCase().includes(words);
  }
  function path(one) {
    const keys = [];
    for (let at = one; at.parent; at = at.parent) keys.unshift(at.key);
    return keys;
  }

  // ------------------------------------------------------------ drawing

  function draw() {
    const above = node(null, null); // what is zoomed to stands in the first row, below its callers
    above.running = total(top);
    let first = top;
    if (top !== root) above.children.set(top.key, top);
    else first = null;
    drawn = bars(byId("flame"), first ? above : root, {
      size: total,
      children: (one) => one.children.values(),
      label,
      title: (one) => said(one) + (where(one) ? "\n" + where(one) : ""),
      paint: (one) => (one.key === WAIT ? "wait" : isName(one) ? "whole" : "f" + (one.key % COLOURS)),
      texture: () => "",
      click: (one) => zoom(one),
    });
    const seen = new Map(drawn.map((bar) => [bar.node, bar]));
    for (const bar of drawn) {
      const { group, node: one } = bar;
      if (one.key === WAIT) group.setAttribute("class", "wait-bar");
      group.setAttribute("role", "button");
      group.setAttribute("tabindex", "-1");
      group.setAttribute("aria-label", said(one));
      if (state.query !== "" && !matches(one)) group.classList.add("dim");
      group.addEventListener("focus", () => about(bar));
      group.addEventListener("pointerenter", () => about(bar, false));
    }
    focused = (focused && seen.get(focused.node)) || drawn[0] || null;
    if (focused) focused.group.setAttribute("tabindex", "0");
    found();
    write();
  }
  function found() {
    let sum = 0;
    const todo = [root]; // what stands below a match is a part of it
    while (todo.length && state.query !== "") {
      const one = todo.pop();
      if (one !== root && matches(one)) sum += total(one);
      else todo.push(...one.children.values());
    }
    const part = digits((100 * sum) / Math.max(1, total(root)));
    byId("found").textContent = state.query === "" ? "" : `${part} % of the time, ${duration(sum)}`;
  }
  function about(bar, focuses = true) {
    const one = bar.node,
      lines = [...one.lines].sort((a, b) => b[1] - a[1]).slice(0, 3);
    byId("about").replaceChildren(html("b", said(one)), document.createElement("br"), where(one));
    if (one.own) byId("about").append(` \u00b7 ran ${duration(one.own)} in itself`);
    if (lines.length)
      byId("about").append(` \u00b7 in line ${lines.map(([line, time]) => `${line}: ${duration(time)}`).join(", line ")}`);
    if (focuses) {
      if (focused) focused.group.setAttribute("tabindex", "-1");
      focused = bar;
      bar.group.setAttribute("tabindex", "0");
    }
  }
  function zoom(one) {
    if (one.key === WAIT) one = one.parent;
    top = one === top ? root : one;
    state.zoom = path(top);
    draw();
  }
  function change() {
    const keep = focused;
    build();
    focused = keep;
    draw();
  }

  // ------------------------------------------------------------ keys and tools

  function step(key) {
    const at = focused;
    if (!at) return null;
    if (key === "ArrowUp") return drawn.find((bar) => bar.node === at.node.parent);
    if (key === "ArrowDown") return drawn.find((bar) => bar.node.parent === at.node);
    const row = drawn.filter((bar) => bar.depth === at.depth),
      next = row.indexOf(at) + (key === "ArrowLeft" ? -1 : 1);
    return row[next];
  }
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target.matches("input, select");
    if (event.key === "Escape" && (event.target === byId("search") || !typing)) {
      if (event.target === byId("search")) event.target.blur();
      if (top !== root) zoom(root);
    } else if (typing) return;
    else if (event.key === "/") byId("search").focus();
    else if (event.key === "0" && top !== root) zoom(root);
    else if (event.key === "?") byId("keys").click();
    else if ({ r: 1, w: 1, b: 1 }[event.key]) {
      byId("by-state").value = state.by = { r: "running", w: "waiting", b: "both" }[event.key];
      change();
    } else if (event.key.startsWith("Arrow") && byId("flame").contains(event.target)) {
      const next = step(event.key);
      if (next) {
        next.group.focus();
        about(next);
      }
    } else if (event.key === "Enter" && focused && byId("flame").contains(event.target)) {
      zoom(focused.node);
      if (focused) focused.group.focus();
    } else return;
    event.preventDefault();
  });
  byId("by-state").addEventListener("change", (event) => {
    state.by = event.target.value;
    change();
  });
  byId("by-name").addEventListener("change", (event) => {
    state.name = event.target.value;
    state.zoom = [];
    change();
  });
  byId("search").addEventListener("input", (event) => {
    state.query = event.target.value;
    draw();
  });
  byId("out").addEventListener("click", () => top !== root && zoom(root));
  byId("keys").addEventListener("click", () => {
    byId("help").hidden = !byId("help").hidden;
    byId("keys").setAttribute("aria-expanded", String(!byId("help").hidden));
  });
  for (const name of [...D.names].sort()) byId("by-name").append(html("option", name, { value: name }));

  // ------------------------------------------------------------ deep links

  let written = null;
  function write() {
    const parts = new URLSearchParams();
    if (state.by !== "both") parts.set("time", state.by);
    if (state.name !== "") parts.set("name", state.name);
    if (state.query !== "") parts.set("q", state.query);
    if (state.zoom.length) parts.set("zoom", state.zoom.join("."));
    const now = parts.toString();
    if (now === (written ?? "") || location.protocol === "about:") return;
    written = now;
    history.replaceState(null, "", now ? "#" + now : location.pathname + location.search);
  }
  function read() {
    if (location.protocol === "about:" || location.hash.slice(1) === (written ?? "")) return;
    const parts = new URLSearchParams((written = location.hash.slice(1)));
    state.by = ["running", "waiting"].includes(parts.get("time")) ? parts.get("time") : "both";
    state.name = D.names.includes(parts.get("name")) ? parts.get("name") : "";
    state.query = parts.get("q") || "";
    const keys = (parts.get("zoom") || "").split(".").filter(Boolean);
    state.zoom = keys.map((key) => (key.startsWith("n") ? key : Number(key)));
    byId("by-state").value = state.by;
    byId("by-name").value = state.name;
    byId("search").value = state.query;
    build();
    draw();
  }
  document.documentElement.classList.add("js");
  addEventListener("resize", draw);
  addEventListener("hashchange", read);
  build();
  draw();
  read();
})();
