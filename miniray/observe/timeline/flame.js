// The flame view: how much time on workers each function took, under the function whose tasks submitted it.
(() => {
  "use strict";
  const page = window.miniray;
  if (!page) return;
  const { D, N, byId } = page;
  const DEEPEST = 24;
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
    window.minirayDrawing.bars(byId("flame"), root, {
      size: (node) => node.total,
      children: (node) => node.children.values(),
      label: (node) => D.functions[node.f],
      title: (node) =>
        `${D.functions[node.f]}: ${page.duration(node.own)} on workers in ${node.count.toLocaleString("en")} attempts`,
      paint: (node) => page.paint(D.colours[node.f]),
      texture: (node) => page.texture(D.colours[node.f]),
      click: (node) => {
        byId("search").value = "=" + D.functions[node.f];
        page.search(byId("search").value);
        byId("stage").scrollIntoView({ block: "nearest" });
      },
    });
  }
  byId("flame-box").addEventListener("toggle", draw);
  addEventListener("resize", draw);
})();
