// What every page draws with: elements, numbers, texts that fit, and bars that stand on each other.
(() => {
  "use strict";
  const NS = "http://www.w3.org/2000/svg";
  function make(tag, attributes, text) {
    const element = document.createElementNS(NS, tag);
    for (const key in attributes) element.setAttribute(key, attributes[key]);
    if (text !== undefined) element.textContent = text;
    return element;
  }
  function html(tag, text, attributes) {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = text;
    for (const key in attributes || {}) element.setAttribute(key, attributes[key]);
    return element;
  }
  const digits = (value) =>
    value >= 999.5 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(3)));
  const measure = document.createElement("canvas").getContext("2d");
  measure.font = "11px system-ui, sans-serif";
  const widths = new Map();
  function cut(text, width) {
    if (!widths.has(text)) widths.set(text, measure.measureText(text).width);
    if (widths.get(text) <= width) return text;
    const keep = Math.floor((text.length * (width - 8)) / widths.get(text));
    return keep >= 2 ? text.slice(0, keep) + "\u2026" : "";
  }

  const HEIGHT = 20,
    NARROWEST = 0.5; // of a bar, in pixels
  // Bars that stand below each other, each as wide as its share of the one above. root: the node above all; its
  // children are an iterable. how: `size(node)`, `children(node)`, `label(node)`, `title(node)`, `paint(node)` and
  // `texture(node)` (classes), and `click(node)`. Returns the bars that were drawn: {node, group, x, width, depth}.
  function bars(svg, root, how) {
    const width = svg.clientWidth || 900,
      found = [];
    let deepest = 0;
    const todo = [[root, 0, width, 0]]; // without recursion: a stack may be deep
    while (todo.length) {
      const [node, x, across, depth] = todo.pop(),
        whole = how.size(node);
      deepest = Math.max(deepest, depth);
      let left = x;
      for (const child of [...how.children(node)].sort((a, b) => how.size(b) - how.size(a))) {
        const wide = whole ? (across * how.size(child)) / whole : 0;
        if (wide < NARROWEST) continue;
        found.push({ node: child, x: left, width: wide, depth });
        todo.push([child, left, wide, depth + 1]);
        left += wide;
      }
    }
    svg.setAttribute("viewBox", `0 0 ${width} ${Math.max(1, deepest) * HEIGHT}`);
    svg.style.height = Math.max(1, deepest) * HEIGHT + "px";
    svg.replaceChildren();
    found.sort((a, b) => a.depth - b.depth || a.x - b.x);
    for (const bar of found) {
      const { node, x, width: wide, depth } = bar,
        group = (bar.group = make("g")),
        box = { x, y: depth * HEIGHT, width: Math.max(0.5, wide - 0.7), height: HEIGHT - 1 };
      group.append(make("rect", { class: how.paint(node), ...box }));
      const over = how.texture(node);
      if (over) group.append(make("rect", { class: over, ...box }));
      group.append(make("title", {}, how.title(node)));
      const text = wide > 40 ? cut(how.label(node), wide - 8) : "";
      if (text) group.append(make("text", { class: "on", x: x + 4, y: depth * HEIGHT + 14 }, text));
      group.addEventListener("click", () => how.click(node));
      svg.append(group);
    }
    return found;
  }
  window.minirayDrawing = { make, html, digits, cut, bars };
})();
