// The curves of the program's metrics, below the lanes and on the same axis of time.
(() => {
  "use strict";
  const page = window.miniray;
  if (!page) return;
  const { D, byId, make, cut } = page;
  const HEIGHT = 40,
    INSIDE = 28;
  if (!D.metrics.length) return;

  const digits = (value) => Number(value.toPrecision(4)).toLocaleString("en");

  function drawOne(svg, curve, top) {
    const [left, right] = page.edges(),
      view = page.view(),
      base = top + INSIDE + 6;
    const dots = curve.kind === "histogram"; // single observations; the others hold a value until the next one
    const shown = [];
    for (let i = 0; i < curve.at.length; i++) {
      const until = i + 1 < curve.at.length ? curve.at[i + 1] : curve.at[i];
      if (dots ? curve.at[i] >= view[0] && curve.at[i] <= view[1] : until >= view[0] && curve.at[i] <= view[1])
        shown.push(i);
    }
    const values = shown.map((i) => curve.values[i]);
    const most = Math.max(0, ...values),
      least = Math.min(0, ...values);
    const y = (value) => base - ((value - least) / (most - least || 1)) * INSIDE;
    const x = (at) => Math.max(left, Math.min(right, page.xOf(at)));
    svg.append(make("path", { class: "grid", d: `M${left} ${base}H${right}` }));
    let d = "";
    for (const i of shown) {
      const h = y(curve.values[i]).toFixed(1);
      if (dots) svg.append(make("circle", { class: "curve-dot", cx: x(curve.at[i]).toFixed(1), cy: h, r: 1.6 }));
      else d += `${d ? `H${x(curve.at[i]).toFixed(1)}V` : `M${x(curve.at[i]).toFixed(1)} `}${h}`;
    }
    // a curve that holds its value up to the edge of the view
    const last = shown.length ? shown[shown.length - 1] : -1;
    if (d && last + 1 < curve.at.length) d += `H${right}`;
    if (d) svg.append(make("path", { class: "curve", d }));
    const title = make("text", { class: "node", x: 8, y: top + 16 }, cut(curve.title, left - 12));
    title.append(make("title", {}, `${curve.kind} ${curve.title}`));
    svg.append(title);
    const said = values.length ? `${digits(Math.min(...values))} to ${digits(Math.max(...values))}` : "nothing here";
    svg.append(make("text", { class: "lane", x: 8, y: top + 29 }, cut(said, left - 12)));
  }

  function draw() {
    const svg = byId("curves");
    page.size(svg, D.metrics.length * HEIGHT);
    D.metrics.forEach((curve, place) => drawOne(svg, curve, place * HEIGHT));
  }
  page.onDraw(draw);
  draw();
})();
