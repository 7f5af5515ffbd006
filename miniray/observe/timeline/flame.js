// The flame view: how much time on workers each function took, under the function whose tasks submitted it.
(() => {
  "use strict";
  const page = window.miniray;
  if (!page) return;
  const { D, N, byId, make } = page;
  const HEIGHT = 20,
    DEEPEST = 24;
  let root = null;

  function build() {
    root = { f: -1, own: 0, count: 0, children: new Map() };
    const nodeOf = new Array(N);
    const place = (i) => {
      if (nodeOf[i]) return nodeOf[i];
      const chain = [];
      let at = i; // upwards to a task whose node is known, without recursion: a chain may be long
      while (at !== undefined && at >= 0 && !nodeOf[at] && chain.length <= N) {
        chain.push(at);
        at = page.parent[at] ? page.rowOf(page.parent[at]) : undefined;
      }
      let node = at !== undefined && nodeOf[at] ? nodeOf[at] : root;
      for (const row of chain.reverse()) {
        const f = D.function[page.name[row]];
        if ((node.depth || 0) < DEEPEST) {
          if (!node.children.has(f))
            node.children.set(f, { f, own: 0, count: 0, depth: (node.depth || 0) + 1, children: new Map() });
          node = node.children.get(f);
        }
        nodeOf[row] = node;
      }
      return nodeOf[i];
    };
    for (let i = 0; i < N; i++) {
      const node = place(i);
      node.count++;
      if (page.leased[i] === page.leased[i]) node.own += page.until(i) - page.leased[i];
    }
    const total = (node) => {
      // a caller is at least as wide as its callees: they may run side by side while it waits
      let below = 0;
      for (const child of node.children.values()) below += total(child);
      return (node.total = Math.max(node.own, below));
    };
    total(root);
  }

  function draw() {
    if (!byId("flame-box").open) return;
    if (!root) build();
    const svg = byId("flame"),
      width = svg.clientWidth || 900,
      found = [];
    let deepest = 0;
    const add = (node, x, across, depth) => {
      deepest = Math.max(deepest, depth);
      let left = x;
      const children = [...node.children.values()].sort((a, b) => b.total - a.total);
      for (const child of children) {
        const wide = node.total ? (across * child.total) / node.total : 0;
        if (wide < 0.5) continue;
        found.push([child, left, wide, depth]);
        add(child, left, wide, depth + 1);
        left += wide;
      }
    };
    add(root, 0, width, 0);
    svg.setAttribute("viewBox", `0 0 ${width} ${Math.max(1, deepest) * HEIGHT}`);
    svg.style.height = Math.max(1, deepest) * HEIGHT + "px";
    svg.replaceChildren();
    for (const [node, x, wide, depth] of found) {
      const group = make("g"),
        box = { x, y: depth * HEIGHT, width: Math.max(0.5, wide - 0.7), height: HEIGHT - 1 };
      group.append(make("rect", { class: page.paint(D.colours[node.f]), ...box }));
      const over = page.texture(D.colours[node.f]);
      if (over) group.append(make("rect", { class: over, ...box }));
      const said = `${D.functions[node.f]}: ${page.duration(node.own)} on workers in ${node.count.toLocaleString("en")} attempts`;
      group.append(make("title", {}, said));
      const text = wide > 40 ? page.cut(D.functions[node.f], wide - 8) : "";
      if (text) group.append(make("text", { class: "on", x: x + 4, y: depth * HEIGHT + 14 }, text));
      group.addEventListener("click", () => {
        byId("search").value = "=" + D.functions[node.f];
        page.search(byId("search").value);
        byId("stage").scrollIntoView({ block: "nearest" });
      });
      svg.append(group);
    }
  }
  byId("flame-box").addEventListener("toggle", draw);
  addEventListener("resize", draw);
})();
