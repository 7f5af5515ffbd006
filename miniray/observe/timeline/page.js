// Draws the part of the timeline that the reader looks at. The data are columns, see columns.py; times are counted in
// units of D.unit seconds from the beginning of the recording. The user's texts become text nodes only, never markup.
// Formatted by prettier with lines of 120 columns.
(() => {
  "use strict";
  const byId = (id) => document.getElementById(id);
  const D = JSON.parse(byId("data").textContent);
  if (!D.rows && !D.spans.length) return;

  // ------------------------------------------------------------ data

  const N = D.rows;
  const FINISHED = 0,
    RUNNING = 4,
    WAITING = 5;
  const STEPS = ["task", "arguments", "queued", "driver"];

  function column(packed) {
    const out = new Float64Array(N);
    if (Array.isArray(packed)) {
      out.set(packed);
      return out;
    }
    let at = 0;
    for (let i = 0; i < packed.runs.length; i += 2) {
      out.fill(packed.runs[i], at, at + packed.runs[i + 1]);
      at += packed.runs[i + 1];
    }
    return out;
  }
  function summed(numbers) {
    let sum = 0;
    for (let i = 0; i < numbers.length; i++) numbers[i] = sum += numbers[i];
    return numbers;
  }

  const name = column(D.name),
    lane = column(D.lane),
    outcome = column(D.outcome),
    attempt = column(D.attempt);
  const actor = column(D.actor),
    number = summed(column(D.number)),
    parent = column(D.parent);
  const created = summed(column(D.when[0]));
  const [ready, leased, started, ended, finished] = (() => {
    let known = created;
    return D.when.slice(1).map((packed) => {
      const out = column(packed),
        upto = new Float64Array(N);
      for (let i = 0; i < N; i++) {
        if (out[i] < 0) {
          upto[i] = known[i];
          out[i] = NaN;
        } else upto[i] = out[i] += known[i];
      }
      known = upto;
      return out;
    });
  })();
  const until = (i) => (finished[i] === finished[i] ? finished[i] : D.now);
  // A function's number among the colours: eight of them, and then again with one of three textures.
  const colour = D.function.map((f) => D.colours[f]);
  const COLOURS = 8;
  const paint = (number) => "f" + (number % COLOURS);
  const texture = (number) => (number < COLOURS ? "" : "t" + Math.floor(number / COLOURS));
  const takes = new Map(),
    gives = new Map();
  for (let i = 0, row = 0; i < D.takes.length; i += 2 + D.takes[i + 1]) {
    const made = [];
    row += D.takes[i];
    for (let j = 0; j < D.takes[i + 1]; j++) {
      const from = row - D.takes[i + 2 + j];
      made.push(from);
      if (!gives.has(from)) gives.set(from, []);
      gives.get(from).push(row);
    }
    takes.set(row, made);
  }
  const errorOf = new Map(),
    traceOf = new Map(),
    reasonOf = new Map();
  for (let i = 0; i < D.errors.at.length; i += 2) {
    errorOf.set(D.errors.at[i], D.errors.texts[D.errors.at[i + 1]]);
    traceOf.set(D.errors.at[i], D.errors.traces[D.errors.at[i + 1]]);
  }
  for (const reason in D.reasons) for (const task of D.reasons[reason]) reasonOf.set(task, reason);
  const path = [];
  for (let i = 1, at = D.path[0], row = 0; i < D.path.length; i += 3) {
    const kind = D.path[i],
      begin = at;
    row += D.path[i + 1];
    at = D.path[i + 2] < 0 ? until(row) : at + D.path[i + 2];
    path.push({ kind, row: kind === 3 ? -1 : row, begin, end: at });
  }
  const taskSteps = path.filter((step) => step.kind === 0),
    onPath = new Set(taskSteps.map((step) => step.row));
  let rowOfNumber = null;
  function rowOf(taskNumber) {
    if (!rowOfNumber) {
      rowOfNumber = new Map();
      for (let i = 0; i < N; i++) rowOfNumber.set(number[i], i);
    }
    return rowOfNumber.get(taskNumber);
  }
  const hex = (value, digits) => value.toString(16).padStart(digits, "0");
  const JOB = "01000000";
  function taskId(i) {
    const ofActor = actor[i] ? hex(actor[i], 24) : "f".repeat(24);
    return (D.kind[name[i]] === 2 ? "f".repeat(16) : hex(number[i], 16)) + ofActor + JOB;
  }

  // ------------------------------------------------------------ lanes

  const ROW = 20,
    HEAD = 20,
    SPAN = 13,
    AXIS = 18,
    CPUS = 84,
    STORE = 34,
    STRIP = 30,
    PATH = 20;
  let lanes = []; // those that are shown: {title, y, height, levels: [rows sorted by time], spans, waits, ...} or {node, y, height}
  const allLanes = [];
  const laneAt = new Map(); // number in the data -> lane that is shown
  (() => {
    const rowsOf = D.lanes.map(() => []);
    for (let i = 0; i < N; i++) if (lane[i] >= 0 && leased[i] === leased[i]) rowsOf[lane[i]].push(i);
    const spansOf = new Map(),
      waitsOf = new Map();
    for (const span of D.spans) {
      if (!spansOf.has(span[1])) spansOf.set(span[1], []);
      spansOf.get(span[1]).push(span);
    }
    for (const wait of D.waits) {
      if (!waitsOf.has(wait[0])) waitsOf.set(wait[0], []);
      waitsOf.get(wait[0]).push(wait);
    }
    const add = (key, title, info, rows) => {
      rows.sort((a, b) => leased[a] - leased[b] || until(b) - until(a));
      const levels = [],
        freeAt = [];
      for (const row of rows) {
        let level = freeAt.findIndex((at) => at <= leased[row]);
        if (level < 0) level = levels.length < 250 ? levels.push([]) - 1 : 249;
        freeAt[level] = until(row);
        levels[level].push(row);
      }
      const spans = spansOf.get(key) || [],
        count = Math.max(1, levels.length);
      const pitch = count <= 3 ? ROW - 2 : Math.max(3, 96 / count);
      const height = Math.max(ROW, Math.ceil(count * pitch) + 2) + (spans.length ? SPAN : 0);
      allLanes.push({
        key,
        title,
        info,
        y: 0,
        height,
        pitch,
        levels,
        spans,
        waits: waitsOf.get(key) || [],
        rows: rows.length,
      });
    };
    const driver = spansOf.has(-1) || waitsOf.has(-1);
    D.nodes.forEach((one, index) => {
      const mine = D.lanes.map((info, key) => [info, key]).filter(([info]) => info.node === one.number);
      if (!mine.length && !(index === 0 && driver)) return;
      allLanes.push({ node: one, y: 0, height: HEAD });
      if (index === 0 && driver) add(-1, "driver", null, []);
      for (const [info, key] of mine) add(key, info.title, info, rowsOf[key]);
    });
  })();
  function showLanes(wanted) {
    // lay out the lanes that are wanted: all, those of a node, or one
    let y = 0,
      node = null;
    laneAt.clear();
    lanes = allLanes.filter((one) => {
      if (one.node) node = one.node;
      return wanted(one, node);
    });
    for (const one of lanes) {
      one.y = y;
      y += one.height;
      if (!one.node) laneAt.set(one.key, one);
    }
    lanes.total = y;
  }
  showLanes(() => true);

  // ------------------------------------------------------------ drawing aids

  const { make, html, digits, cut } = window.minirayDrawing;
  function duration(count) {
    const s = count * D.unit;
    if (s <= 0) return "0";
    for (const [unit, size, from] of [
      ["h", 3600, 100],
      ["min", 60, 100],
      ["s", 1, 0.9995],
      ["ms", 1e-3, 0.9995],
    ])
      if (s >= size * from) return digits(s / size) + " " + unit;
    return digits(s * 1e6) + " \u00b5s";
  }
  class Shapes {
    // collects the outlines of many boxes in one path element per class
    constructor() {
      this.byClass = new Map();
    }
    add(kind, x, y, width, height) {
      let parts = this.byClass.get(kind);
      if (!parts) this.byClass.set(kind, (parts = []));
      parts.push(`M${x.toFixed(1)} ${y.toFixed(1)}h${width.toFixed(1)}v${height.toFixed(1)}h${(-width).toFixed(1)}z`);
    }
    raw(kind, text) {
      if (!this.byClass.has(kind)) this.byClass.set(kind, []);
      this.byClass.get(kind).push(text);
    }
    into(group) {
      for (const [kind, parts] of this.byClass) group.append(make("path", { class: kind, d: parts.join("") }));
    }
  }

  // ------------------------------------------------------------ state

  let LEFT = 178; // the column of names; narrower on a phone
  const RIGHT = 10;
  const strip = byId("strip"),
    head = byId("head"),
    box = byId("lanes-box"),
    svg = byId("lanes"),
    tip = byId("tip");
  const whole = [0, Math.max(D.end, 20) * 1.005];
  let view = whole.slice(),
    width = 900,
    selected = -1,
    hovered = -1,
    matches = null,
    matching = null,
    matchPlace = -1,
    chainShown = true;
  let brush = null;
  const scale = () => (width - LEFT - RIGHT) / (view[1] - view[0]);
  const xOf = (at) => LEFT + (at - view[0]) * scale();
  const atX = (x) => view[0] + (x - LEFT) / scale();

  function look(begin, end) {
    const length = Math.min(Math.max(end - begin, 5), whole[1] - whole[0]);
    const middle = (begin + end) / 2;
    const from = Math.min(Math.max(middle - length / 2, whole[0]), whole[1] - length);
    view = [from, from + length];
    draw();
  }
  const pan = (part) => look(view[0] + (view[1] - view[0]) * part, view[1] + (view[1] - view[0]) * part);
  function zoom(factor, around) {
    const at = around === undefined ? (view[0] + view[1]) / 2 : around;
    look(at - (at - view[0]) * factor, at + (view[1] - at) * factor);
  }

  // ------------------------------------------------------------ CPUs over time

  function averages(begin, end, bins) {
    // of everything that is summed over time; must agree with utilisation.py
    const per = bins / (end - begin);
    const series = () => ({ inside: new Float64Array(bins + 1), steps: new Float64Array(bins + 2) });
    const add = (into, from, to, weight) => {
      const left = Math.max(0, (from - begin) * per),
        right = Math.min(bins, (to - begin) * per);
      if (!(right > left)) return;
      const first = Math.floor(left),
        last = Math.floor(right);
      if (first === last) into.inside[first] += (right - left) * weight;
      else {
        into.inside[first] += (first + 1 - left) * weight;
        into.inside[last] += (right - last) * weight;
        into.steps[first + 1] += weight;
        into.steps[last] -= weight;
      }
    };
    const values = (from) => {
      let level = 0;
      const out = new Float64Array(bins);
      for (let i = 0; i < bins; i++) {
        level += from.steps[i];
        out[i] = Math.max(0, level + from.inside[i]);
      }
      return out;
    };
    const busy = series(),
      placed = series(),
      linedUp = series(),
      waiting = series(),
      driver = series(),
      capacity = series();
    for (let i = 0; i < N; i++) {
      const over = until(i);
      if (leased[i] === leased[i] && D.kind[name[i]] === 0) add(busy, leased[i], over, D.cpus[name[i]]);
      const readyUntil = ready[i] === ready[i] ? ready[i] : over;
      if (readyUntil > created[i]) add(waiting, created[i], readyUntil, 1);
      const leasedUntil = leased[i] === leased[i] ? leased[i] : over;
      if (ready[i] === ready[i] && leasedUntil > ready[i])
        add(D.kind[name[i]] === 1 ? linedUp : placed, ready[i], leasedUntil, 1);
    }
    for (const one of lanes) {
      if (!one.info || !one.info.actor) continue; // an actor's calls keep one thread busy between them, coroutines too
      if (!one.union) {
        one.union = [];
        for (const row of [].concat(...one.levels).sort((a, b) => leased[a] - leased[b])) {
          const last = one.union[one.union.length - 1];
          if (last && leased[row] <= last[1]) last[1] = Math.max(last[1], until(row));
          else one.union.push([leased[row], until(row)]);
        }
      }
      for (const [from, to] of one.union) add(busy, from, to, one.info.cpus);
    }
    for (const [where, from, to] of D.waits) {
      if (where === -1) add(driver, from, to, 1);
      else if (where >= 0 && !D.lanes[where].actor) add(busy, from, to, -1);
    }
    for (const node of D.nodes) add(capacity, node.from, node.to === null ? whole[1] : node.to, node.cpus);
    const out = { busy: values(busy), capacity: values(capacity), idle: D.causes.map(() => new Float64Array(bins)) };
    const counts = [values(placed), values(linedUp), values(waiting)],
      driverWaits = values(driver);
    for (let i = 0; i < bins; i++) {
      out.busy[i] = Math.min(out.busy[i], out.capacity[i]); // calls of actors without CPUs have no CPU of their own
      let left = out.capacity[i] - out.busy[i];
      counts.forEach((count, cause) => {
        const charged = Math.min(left, count[i]);
        out.idle[cause][i] = charged;
        left -= charged;
      });
      out.idle[3][i] = left * Math.min(1, driverWaits[i]);
      out.idle[4][i] = left * (1 - Math.min(1, driverWaits[i]));
    }
    return out;
  }
  function area(group, used, left, across, base, height, layers) {
    const bins = used.busy.length,
      each = across / bins;
    let most = 1e-9;
    for (let i = 0; i < bins; i++) most = Math.max(most, used.busy[i], used.capacity[i]);
    const y = (value) => (base - (value / most) * height).toFixed(1);
    let below = new Float64Array(bins);
    for (const [kind, layer] of layers) {
      const above = below.map((value, i) => value + layer[i]);
      if (layer.some((value) => value > 0)) {
        let d = `M${left} ${y(above[0])}`;
        for (let i = 0; i < bins; i++) d += `L${(left + i * each).toFixed(1)} ${y(above[i])}h${each.toFixed(2)}`;
        for (let i = bins - 1; i >= 0; i--)
          d += `L${(left + (i + 1) * each).toFixed(1)} ${y(below[i])}h${(-each).toFixed(2)}`;
        group.append(make("path", { class: kind, d: d + "z" }));
      }
      below = above;
    }
    let d = "";
    for (let i = 0; i < bins; i++)
      d += `${i ? "L" : "M"}${(left + i * each).toFixed(1)} ${y(used.capacity[i])}h${each.toFixed(2)}`;
    group.append(make("path", { class: "capacity", d }));
    return most;
  }
  let wholeAverages = null;

  // ------------------------------------------------------------ draw

  let scheduled = false;
  function draw() {
    if (!scheduled) {
      scheduled = true;
      requestAnimationFrame(() => {
        scheduled = false;
        drawNow();
      });
    }
  }
  const listeners = []; // what happens after each drawing
  function drawNow() {
    width = box.clientWidth || 900; // one unit is one pixel, so that a tap hits what it touches
    LEFT = width < 600 ? Math.max(70, width * 0.26) : 178;
    drawStrip();
    drawHead();
    drawLanes();
    for (const then of listeners) then();
  }
  function size(element, height) {
    element.setAttribute("viewBox", `0 0 ${width} ${height}`);
    element.style.height = height + "px";
    element.replaceChildren();
  }

  function drawStrip() {
    size(strip, STRIP);
    const across = width - LEFT - RIGHT,
      per = across / (whole[1] - whole[0]);
    wholeAverages = wholeAverages || averages(whole[0], whole[1], 240);
    strip.append(make("text", { class: "lane", x: 8, y: 19 }, cut("whole run, " + duration(D.end), LEFT - 12)));
    area(strip, wholeAverages, LEFT, across, STRIP - 2, STRIP - 6, [["busy", wholeAverages.busy]]);
    if (matches) {
      const marks = new Set();
      for (let i = 0; i < matches.length; i++)
        marks.add(Math.round(LEFT + (leased[matches[i]] || created[matches[i]]) * per));
      let d = "";
      for (const x of marks) d += `M${x} 1h2v5h-2z`;
      strip.append(make("path", { class: "found-mark", d }));
    }
    strip.append(
      make("rect", {
        class: "window",
        x: LEFT + view[0] * per,
        y: 0.5,
        width: Math.max(2, (view[1] - view[0]) * per),
        height: STRIP - 1,
      }),
    );
    if (brush)
      strip.append(
        make("rect", {
          class: "brush",
          x: Math.min(...brush),
          y: 0,
          width: Math.abs(brush[1] - brush[0]),
          height: STRIP,
        }),
      );
  }

  function ticks() {
    const length = view[1] - view[0],
      most = Math.max(2, (width - LEFT) / 110);
    let step = 10 ** Math.floor(Math.log10(length / most));
    for (const factor of [1, 2, 5, 10])
      if (length / (step * factor) <= most) {
        step *= factor;
        break;
      }
    const out = [];
    for (let at = Math.ceil(view[0] / step) * step; at <= view[1]; at += step) out.push(at);
    return out;
  }

  function drawHead() {
    const height = AXIS + CPUS + PATH + 8 + (D.stores.length ? STORE : 0),
      base = AXIS + CPUS,
      across = width - LEFT - RIGHT;
    size(head, height);
    for (const at of ticks()) {
      const x = xOf(at);
      head.append(make("path", { class: "grid", d: `M${x.toFixed(1)} ${AXIS - 4}V${height}` }));
      if (x < width - 50) head.append(make("text", { class: "axis", x: x + 3, y: 12 }, duration(at)));
    }
    const used = averages(view[0], view[1], Math.max(40, Math.min(400, Math.floor(across / 3))));
    const most = area(head, used, LEFT, across, base, CPUS - 8, [
      ["busy", used.busy],
      ...used.idle.map((layer, cause) => ["idle" + cause, layer]),
    ]);
    const sum = (layer) => layer.reduce((a, b) => a + b, 0),
      total = sum(used.capacity);
    head.append(make("text", { class: "node", x: 8, y: AXIS + 22 }, cut("CPUs in use", LEFT - 30)));
    head.append(
      make(
        "text",
        { class: "lane", x: 8, y: AXIS + 38 },
        total ? `${((100 * sum(used.busy)) / total).toFixed(0)} % of ${digits(Math.max(...used.capacity))}` : "",
      ),
    );
    head.append(make("text", { class: "axis", x: LEFT - 4, y: AXIS + 16, "text-anchor": "end" }, digits(most)));
    head.append(make("text", { class: "axis", x: LEFT - 4, y: base, "text-anchor": "end" }, "0"));
    head.append(make("text", { class: "node", x: 8, y: base + 18 }, cut("critical path", LEFT - 12)));
    if (D.stores.length) drawStores(base + PATH + 8, across);
    drawMarks(height);
    const shapes = new Shapes(),
      y = base + 5;
    let pixel = -1,
      shares = new Map();
    const flush = () => {
      // of the kinds that share a pixel, draw the one that takes most of it
      let best = "",
        most = -1;
      for (const [kind, sum] of shares)
        if (sum > most) {
          most = sum;
          best = kind;
        }
      if (best) shapes.add(best, pixel, y, 1, PATH - 4);
      shares = new Map();
    };
    for (const step of path) {
      if (step.end < view[0] || step.begin > view[1]) continue;
      const left = Math.max(LEFT, xOf(step.begin)),
        right = Math.min(width - RIGHT, xOf(step.end));
      const kind = step.kind === 0 ? paint(colour[name[step.row]]) : "step-" + STEPS[step.kind];
      if (right - left >= 2) {
        flush();
        pixel = -1;
        shapes.add(kind, left, y, right - left - (right - left > 4 ? 1 : 0), PATH - 4);
        continue;
      }
      if (Math.floor(left) !== pixel) {
        flush();
        pixel = Math.floor(left);
      }
      shares.set(kind, (shares.get(kind) || 0) + right - left);
    }
    flush();
    shapes.into(head);
    for (const step of path) {
      const left = Math.max(LEFT, xOf(step.begin)),
        right = Math.min(width - RIGHT, xOf(step.end));
      if (right - left < 46) continue;
      const text = cut(step.kind === 0 ? D.names[name[step.row]] : step.kind === 3 ? "driver" : "", right - left - 8);
      if (text) head.append(make("text", { class: step.kind === 0 ? "on" : "lane", x: left + 4, y: y + 12 }, text));
    }
  }

  function drawStores(top, across) {
    // how full the object stores were: in memory, and above that in files, as a share of the capacity
    const bins = Math.max(40, Math.min(400, Math.floor(across / 3))),
      each = across / bins;
    const used = new Float64Array(bins),
      files = new Float64Array(bins);
    let capacity = 0;
    for (const store of D.stores) {
      capacity += store.capacity;
      let place = 0;
      for (let i = 0; i < bins; i++) {
        const until = view[0] + ((i + 1) * (view[1] - view[0])) / bins,
          from = place;
        while (place + 1 < store.at.length && store.at[place + 1] <= until) place++;
        if (store.at[0] > until) continue;
        let most = 0; // a short peak must not disappear between two bins
        for (let n = from; n <= place; n++) most = Math.max(most, store.used[n]);
        used[i] += most;
        files[i] += store.files[place];
      }
    }
    let most = 1;
    for (let i = 0; i < bins; i++) most = Math.max(most, used[i] + files[i]);
    const height = STORE - 8,
      base = top + height,
      y = (value) => base - (value / most) * height;
    for (const [kind, low, high] of [
      ["store", () => 0, (i) => used[i]],
      ["store-files", (i) => used[i], (i) => used[i] + files[i]],
    ]) {
      let d = "";
      for (let i = 0; i < bins; i++) {
        if (high(i) - low(i) > 0)
          d += `M${(LEFT + i * each).toFixed(1)} ${y(high(i)).toFixed(1)}h${each.toFixed(2)}V${y(low(i)).toFixed(1)}h${(-each).toFixed(2)}z`;
      }
      if (d) head.append(make("path", { class: kind, d }));
    }
    const mib = (bytes) => digits(bytes / 1048576) + " MiB";
    head.append(make("text", { class: "node", x: 8, y: top + 12 }, cut("object stores", LEFT - 12)));
    head.append(
      make("text", { class: "lane", x: 8, y: top + 25 }, cut(`${mib(most)} at most of ${mib(capacity)}`, LEFT - 12)),
    );
  }

  const MARKS = {
    // the shape of each kind of mark, around the middle of its place
    spill: (x) => `M${x - 4} 2h8l-4 7z`,
    restore: (x) => `M${x - 4} 9h8l-4 -7z`,
    lost: (x) => `M${x - 4} 9h8l-4 -7z`,
    node: (x) => `M${x} 1l4 4l-4 4l-4 -4z`,
    restart: (x) => `M${x - 4} 1h8v8h-8z`,
  };
  function drawMarks(height) {
    const done = new Set();
    for (const [at, kind] of D.marks) {
      if (at < view[0] || at > view[1]) continue;
      const x = Math.round(xOf(at));
      if (done.has(kind + (x >> 2))) continue; // many marks at one place are one
      done.add(kind + (x >> 2));
      if (kind === "node" || kind === "restart")
        head.append(make("path", { class: "mark-line " + kind, d: `M${x} 0V${height}` }));
      head.append(make("path", { class: "glyph " + kind, d: MARKS[kind](x) }));
    }
  }
  function marksAround(x) {
    // the sentences of the marks within five pixels
    return D.marks.filter(([at]) => Math.abs(xOf(at) - x) <= 5).map((mark) => mark[2]);
  }

  const boxOf = (i) => {
    // the box of an attempt: x, y, width, height; null if it reached no worker
    const one = laneAt.get(lane[i]);
    if (!one || leased[i] !== leased[i]) return null;
    const level =
      one.levels.length < 2
        ? 0
        : Math.max(
            0,
            one.levels.findIndex((rows) => rows.includes(i)),
          );
    const x = xOf(leased[i]);
    return [x, one.y + 1 + level * one.pitch, Math.max(2, xOf(until(i)) - x), one.pitch - 1];
  };
  function firstVisible(rows) {
    // the rows of a level do not overlap, so their ends are in order too
    let low = 0,
      high = rows.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (until(rows[middle]) < view[0]) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  function drawLanes() {
    size(svg, Math.max(lanes.total, 30));
    svg.setAttribute("aria-label", `${N.toLocaleString("en")} attempts on ${D.lanes.length} workers`);
    const top = box.scrollTop - 40,
      bottom = box.scrollTop + box.clientHeight + 40;
    const shapes = new Shapes(),
      marks = new Shapes(),
      texts = [],
      grid = [];
    for (const at of ticks()) grid.push(`M${xOf(at).toFixed(1)} 0V${lanes.total}`);
    svg.append(make("path", { class: "grid", d: grid.join("") }));
    const right = width - RIGHT;
    for (const [at, kind, , where] of D.marks) {
      if (at < view[0] || at > view[1] || (kind !== "node" && kind !== "restart")) continue;
      const one = laneAt.get(where),
        x = xOf(at).toFixed(1);
      const d = one ? `M${x} ${one.y}v${one.height}` : `M${x} 0V${lanes.total}`;
      if (one || kind === "node") svg.append(make("path", { class: "mark-line " + kind, d }));
    }
    for (const one of lanes) {
      if (one.y + one.height < top || one.y > bottom) continue;
      if (one.node) {
        shapes.add("nodeband", 0, one.y, width, HEAD);
        const node = one.node;
        const state = (node.head ? " (head)" : "") + (node.alive ? "" : ", dead");
        const title = `node ${node.name}${state}, ${node.cpus} CPU${node.cpus === 1 ? "" : "s"}`;
        texts.push(make("text", { class: "node", x: 8, y: one.y + 14 }, title));
        continue;
      }
      shapes.raw("base", `M0 ${one.y + one.height - 0.5}H${width}`);
      one.levels.forEach((rows, level) => drawLevel(one, rows, level, shapes, marks, texts, right));
      for (const [, from, to] of one.waits) {
        if (to < view[0] || from > view[1]) continue;
        const x = Math.max(LEFT, xOf(from)),
          across = Math.min(right, xOf(to)) - x;
        if (across >= 1 && one.key >= 0) marks.add("waited", x, one.y + 1, across, one.pitch * 0.45);
        if (across >= 1 && one.key < 0) {
          shapes.add("stood", x, one.y + 2, across, ROW - 5);
          if (across > 60) texts.push(make("text", { class: "lane", x: x + 4, y: one.y + 13 }, "in get or wait"));
        }
      }
      for (const [text, , from, to] of one.spans) {
        if (to < view[0] || from > view[1]) continue;
        const x = Math.max(LEFT, xOf(from)),
          across = Math.max(1.5, Math.min(right, xOf(to)) - x);
        shapes.add("span" + (matching ? " dim" : ""), x, one.y + one.height - SPAN, across, SPAN - 2);
        const label = across > 30 ? cut(text, across - 6) : "";
        if (label) texts.push(make("text", { class: "on spanned", x: x + 3, y: one.y + one.height - 4 }, label));
      }
    }
    shapes.into(svg);
    marks.into(svg);
    drawGaps();
    if (chainShown) drawChain(top, bottom);
    drawSelection();
    svg.append(make("rect", { class: "cover", x: 0, y: 0, width: LEFT - 1, height: lanes.total }));
    for (const one of lanes) {
      if (one.y + one.height < top || one.y > bottom || one.node) continue;
      texts.push(
        make(
          "text",
          { class: "lane", x: 14, y: one.y + Math.min(14, one.height - 4) },
          cut(one.title + (one.info && one.info.died !== null ? " \u2020" : ""), LEFT - 22),
        ),
      );
    }
    svg.append(...texts);
  }

  function drawLevel(one, rows, level, shapes, marks, texts, right) {
    const y = one.y + 1 + level * one.pitch,
      height = one.pitch - 1,
      per = scale();
    let bucket = -1,
      filled = 0,
      byKind = new Map(),
      flagged = 0,
      lastFlag = -99;
    const flag = (which, x) => {
      // a triangle, or where triangles would overlap, a tick at the top, the middle or the bottom
      if (x - lastFlag > 8) marks.raw("flag" + which, `M${(x - 3).toFixed(1)} ${y}h7l-3.5 6z`);
      else marks.add("flag" + which, x, y + [0, 0, (height - 4) / 2, height - 4][which], 1.5, 4);
      lastFlag = x;
    };
    const flush = () => {
      // attempts narrower than a pixel: a bar as high as the part of the pixel that was busy
      if (bucket < 0) return;
      let best = "",
        most = -1;
      for (const [kind, sum] of byKind)
        if (sum > most) {
          most = sum;
          best = kind;
        }
      const tall = Math.max(3, Math.min(1, Math.ceil(filled * 5) / 5) * height);
      shapes.add(best, bucket, y + height - tall, 1, tall);
      if (flagged) flag(flagged, bucket);
      bucket = -1;
      filled = 0;
      byKind = new Map();
      flagged = 0;
    };
    for (let place = firstVisible(rows); place < rows.length; place++) {
      const i = rows[place];
      if (leased[i] > view[1]) break;
      const over = until(i);
      let left = LEFT + (leased[i] - view[0]) * per,
        end = LEFT + (over - view[0]) * per;
      const dim = matching && !matching(i) ? " dim" : "";
      const kind = paint(colour[name[i]]) + dim,
        woven = texture(colour[name[i]]);
      if (end - left < 1.5) {
        const pixel = Math.floor(left);
        if (pixel < LEFT) continue;
        if (pixel !== bucket) {
          flush();
          bucket = pixel;
        }
        filled += end - left;
        byKind.set(kind, (byKind.get(kind) || 0) + end - left + 1e-6);
        if (outcome[i] >= 1 && outcome[i] <= 3 && !dim) flagged = flagged ? Math.min(flagged, outcome[i]) : outcome[i];
        continue;
      }
      flush();
      left = Math.max(LEFT - 2, left);
      end = Math.min(right + 2, end);
      const across = end - left - (end - left > 4 ? 0.8 : 0);
      shapes.add(kind, left, y, across, height);
      if (woven && across > 4) marks.add(woven + dim, left, y, across, height);
      if (outcome[i] !== FINISHED) {
        marks.add("o" + outcome[i] + dim, left + 0.7, y + 0.7, Math.max(1, across - 1.4), height - 1.4);
        if (across < 14 && outcome[i] <= 3) flag(outcome[i], left);
      }
      if (across > 36 && height > 9) {
        if (started[i] === started[i]) {
          const fetch = LEFT + (started[i] - view[0]) * per,
            store = LEFT + (ended[i] - view[0]) * per;
          if (fetch - left > 1) marks.add("phase", left, y + height - 4, Math.min(fetch, end) - left, 4);
          if (ended[i] === ended[i] && end - store > 1)
            marks.add("phase", Math.max(left, store), y + height - 4, end - Math.max(left, store), 4);
        }
        if (texts.length < 1500) {
          const sign = ["", "\u2715 ", "\u21bb ", "\u2298 ", "\u2026 ", ""][outcome[i]];
          const text = cut(sign + D.names[name[i]], across - 8);
          if (text)
            texts.push(
              make(
                "text",
                {
                  class: "on" + (outcome[i] === FINISHED ? "" : " marked") + dim,
                  x: (Math.max(left, LEFT) + 4).toFixed(1),
                  y: (y + height / 2 + 4).toFixed(1),
                },
                text,
              ),
            );
        }
      }
    }
    flush();
  }

  function drawChain(top, bottom) {
    if (matching) return; // the darkest marks would be those that nobody searches for
    const line = [],
      outlines = new Shapes();
    let before = null,
      within = 0;
    for (const step of taskSteps) if (step.end >= view[0] && step.begin <= view[1]) within++;
    if (within > (width - LEFT) / 6) {
      // too many steps for a line: underline the attempts instead
      const done = new Map();
      for (const step of taskSteps) {
        const place = step.end < view[0] || step.begin > view[1] ? null : boxOf(step.row);
        if (!place) continue;
        const y = place[1] + place[3] - 2,
          x0 = Math.max(LEFT, Math.floor(xOf(step.begin)), done.get(y) || 0),
          x1 = Math.ceil(xOf(step.end));
        if (x1 > x0) {
          outlines.add("underline", x0, y, x1 - x0, 3);
          done.set(y, x1);
        }
      }
      outlines.into(svg);
      return;
    }
    for (const step of taskSteps) {
      const place = boxOf(step.row);
      if (!place) continue;
      const x0 = xOf(step.begin),
        x1 = xOf(step.end),
        y = place[1] + place[3] / 2;
      const away = x1 < LEFT - 20 || x0 > width + 20;
      if (before && !(away && ((before[0] < LEFT - 20 && x0 < LEFT) || (before[0] > width && x0 > width))))
        if (Math.abs(before[1] - y) > 1 || x0 - before[0] > 1)
          line.push(`M${before[0].toFixed(1)} ${before[1].toFixed(1)}L${x0.toFixed(1)} ${y.toFixed(1)}`);
      before = [x1, y];
      if (away || place[1] + 30 < top || place[1] > bottom) continue;
      if (x1 - x0 >= 3)
        outlines.add(
          "onchain",
          Math.max(LEFT - 3, x0),
          place[1],
          Math.min(width + 3, x1) - Math.max(LEFT - 3, x0),
          place[3],
        );
      else line.push(`M${x0.toFixed(1)} ${y.toFixed(1)}h1.5`);
    }
    outlines.into(svg);
    if (line.length) svg.append(make("path", { class: "chain", d: line.join("") }));
  }

  function drawGaps() {
    // the longest times in which a worker ran nothing, as listed in the table below
    for (const [where, from, to] of D.gaps) {
      const one = laneAt.get(where),
        x = Math.max(LEFT, xOf(from)),
        end = Math.min(width - RIGHT, xOf(to));
      if (!one || end - x < 6) continue;
      svg.append(make("rect", { class: "gap" + (matching ? " dim" : ""), x: x + 1, y: one.y + 2.5, width: end - x - 2, height: ROW - 5, rx: 2 }));
      const text = end - x > 50 ? cut("idle " + duration(to - from), end - x - 10) : "";
      if (text) svg.append(make("text", { class: "lane", x: x + 6, y: one.y + 14 }, text));
    }
  }

  function drawSelection() {
    if (hovered >= 0 && hovered !== selected) {
      const place = boxOf(hovered);
      if (place)
        svg.append(make("rect", { class: "hover", x: place[0], y: place[1], width: place[2], height: place[3] }));
    }
    if (selected < 0) return;
    const place = boxOf(selected);
    if (!place) return;
    const [x, y, across, height] = place,
      middle = y + height / 2;
    const i = selected;
    if (ready[i] === ready[i]) {
      if (ready[i] > created[i])
        svg.append(make("path", { class: "before-args", d: `M${xOf(created[i])} ${middle}H${xOf(ready[i])}` }));
      if (leased[i] > ready[i])
        svg.append(make("path", { class: "before-queue", d: `M${xOf(ready[i])} ${middle}H${x}` }));
    }
    const arrow = (x0, y0, x1, y1, kind) => {
      const bend = Math.max(12, Math.abs(x1 - x0) / 3);
      svg.append(
        make("path", {
          class: "arrow " + kind,
          d: `M${x0} ${y0}C${x0 + bend} ${y0} ${x1 - bend} ${y1} ${x1 - 5} ${y1}`,
        }),
      );
      svg.append(make("path", { class: "arrowhead", d: `M${x1} ${y1}l-7 -3.5v7z` }));
    };
    for (const from of (takes.get(i) || []).slice(0, 200)) {
      const a = boxOf(from);
      if (a) arrow(xOf(until(from)), a[1] + a[3] / 2, x, middle, "");
    }
    for (const to of (gives.get(i) || []).slice(0, 200)) {
      const b = boxOf(to);
      if (b) arrow(xOf(until(i)), middle, b[0], b[1] + b[3] / 2, "");
    }
    const from = parent[i] ? rowOf(parent[i]) : undefined,
      a = from === undefined ? null : boxOf(from);
    if (a) arrow(xOf(created[i]), a[1] + a[3] / 2, x, middle, "submit");
    else if (laneAt.has(-1) && !parent[i]) arrow(xOf(created[i]), laneAt.get(-1).y + 10, x, middle, "submit");
    svg.append(make("rect", { class: "selected", x, y, width: across, height }));
  }

  // ------------------------------------------------------------ facts of an attempt

  function factsOf(i) {
    const known = (at) => at === at,
      out = [];
    out.push([
      "outcome",
      D.outcomes[outcome[i]] +
        (outcome[i] === 2 ? " after a failure" : "") +
        (attempt[i] || outcome[i] === 2 ? `; attempt ${attempt[i]}` : ""),
    ]);
    const error = errorOf.get(i);
    if (error) out.push([error[0], error[1].split("\n")[0].slice(0, 200)]);
    if (reasonOf.has(number[i]) && outcome[i] === WAITING) out.push(["why it waits", reasonOf.get(number[i])]);
    if (D.functions[D.function[name[i]]] !== D.names[name[i]]) out.push(["function", D.functions[D.function[name[i]]]]);
    const one = lane[i] >= 0 ? D.lanes[lane[i]] : null;
    if (one)
      out.push([
        "where",
        one.title + " on " + (D.nodes.find((node) => node.number === one.node) || { name: "?" }).name,
      ]);
    out.push(["submitted", "at " + duration(created[i]) + " by " + submitter(i)]);
    const over = until(i);
    const phase = (label, from, to) => {
      if (known(from) && to > from) out.push([label, duration(to - from)]);
    };
    phase("waited for arguments", created[i], known(ready[i]) ? ready[i] : over);
    phase("queued", ready[i], known(leased[i]) ? leased[i] : over);
    phase("fetching function and arguments", leased[i], known(started[i]) ? started[i] : over);
    phase("running", started[i], known(ended[i]) ? ended[i] : over);
    if (outcome[i] === FINISHED) phase("storing", ended[i], over);
    if (known(leased[i]))
      out.push(["on the worker", duration(leased[i]) + " to " + (known(finished[i]) ? duration(finished[i]) : "now")]);
    const made = takes.get(i),
      given = gives.get(i);
    if (made) out.push(["takes results of", made.length === 1 ? D.names[name[made[0]]] : made.length + " tasks"]);
    if (given) out.push(["result taken by", given.length === 1 ? D.names[name[given[0]]] : given.length + " tasks"]);
    if (onPath.has(i)) out.push(["critical path", "yes"]);
    out.push(["task id", taskId(i)]);
    return out;
  }
  function submitter(i) {
    if (!parent[i]) return "the driver";
    const row = rowOf(parent[i]);
    return row === undefined ? "a task that is no longer recorded" : D.names[name[row]];
  }
  function factList(i) {
    const list = html("dl");
    for (const [label, value] of factsOf(i)) {
      const cell = html("dd");
      cell.append(html("bdi", value));
      list.append(html("dt", label), cell);
    }
    return list;
  }
  function title(i) {
    const heading = html("h3");
    heading.append(html("bdi", D.names[name[i]]));
    return heading;
  }

  function showTip(content, x, y) {
    tip.replaceChildren(...content);
    tip.hidden = false;
    const stage = byId("stage").getBoundingClientRect();
    const left = Math.min(x - stage.left + 14, stage.width - tip.offsetWidth - 6);
    let top = y - stage.top + 16;
    if (y + 20 + tip.offsetHeight > innerHeight) top = y - stage.top - tip.offsetHeight - 10;
    tip.style.left = Math.max(4, left) + "px";
    tip.style.top = Math.max(4, Math.min(top, stage.height - tip.offsetHeight - 4)) + "px";
  }
  const hideTip = () => {
    tip.hidden = true;
  };

  function select(i, reveal) {
    selected = i;
    const facts = byId("facts");
    facts.hidden = i < 0;
    byId("hint").hidden = i >= 0;
    byId("close").hidden = i < 0;
    if (i >= 0) {
      facts.replaceChildren(title(i), factList(i));
      const error = errorOf.get(i);
      if (error) facts.append(html("h4", traceOf.get(i) ? "Traceback" : "Error"), html("pre", traceOf.get(i) || error[1]));
      const log = D.logs.of[number[i] + "." + attempt[i]];
      if (log) facts.append(html("h4", "Last lines of its log"), html("pre", log));
      else if (started[i] === started[i]) facts.append(html("h4", "Its log"), html("p", D.logs.otherwise));
      byId("side").scrollTop = 0;
      const links = (label, rows) => {
        if (!rows || !rows.length) return;
        const line = html("p", label + " ");
        for (const row of rows.slice(0, 30)) {
          const button = html("button", D.names[name[row]]);
          button.addEventListener("click", () => select(row, true));
          line.append(button);
        }
        if (rows.length > 30) line.append(`and ${rows.length - 30} more`);
        facts.append(line);
      };
      links("Takes results of", takes.get(i));
      links("Result taken by", gives.get(i));
      const from = parent[i] ? rowOf(parent[i]) : undefined;
      links("Submitted by", from === undefined ? [] : [from]);
      if (reveal) show(i);
    }
    draw();
  }
  function show(i) {
    const begin = leased[i] === leased[i] ? leased[i] : created[i],
      end = until(i),
      length = view[1] - view[0];
    if (end - begin > length * 0.8) look(begin - (end - begin) * 0.2, end + (end - begin) * 0.2);
    else if (begin < view[0] + length * 0.05 || end > view[1] - length * 0.05)
      look((begin + end) / 2 - length / 2, (begin + end) / 2 + length / 2);
    const one = laneAt.get(lane[i]);
    if (one && (one.y < box.scrollTop || one.y + one.height > box.scrollTop + box.clientHeight))
      box.scrollTop = one.y - box.clientHeight / 2;
  }

  // ------------------------------------------------------------ search

  let filter = null; // what the filters above the lanes let through: a function of an attempt, or null
  function setFilter(lets, wanted) {
    filter = lets;
    showLanes(wanted || (() => true));
    search(byId("search").value);
  }
  function search(text) {
    const wanted = text.trim().toLowerCase();
    matchPlace = -1;
    if (!wanted && !filter) {
      matches = matching = null;
      byId("found").textContent = "";
      draw();
      return;
    }
    const exact = wanted.startsWith("=") ? wanted.slice(1) : null;
    const inName = D.names.map((one, n) =>
      exact !== null
        ? D.functions[D.function[n]].toLowerCase() === exact
        : one.toLowerCase().includes(wanted) || D.functions[D.function[n]].toLowerCase().includes(wanted),
    );
    const inLane = D.lanes.map(
      (one) =>
        exact === null && (one.title.toLowerCase() === wanted || (wanted.length > 7 && one.id.startsWith(wanted))),
    );
    const inError = D.errors.texts.map(
      ([type, message]) =>
        exact === null && (type.toLowerCase().includes(wanted) || message.toLowerCase().includes(wanted)),
    );
    const inOutcome = D.outcomes.map((one) => one === wanted);
    const errorNumber = new Map();
    for (let i = 0; i < D.errors.at.length; i += 2) errorNumber.set(D.errors.at[i], D.errors.at[i + 1]);
    const isHex = exact === null && wanted.length >= 6 && /^[0-9a-f]+$/.test(wanted);
    const found = new Uint8Array(N),
      list = [];
    for (let i = 0; i < N; i++) {
      if (filter && !filter(i)) continue;
      if (
        !wanted ||
        inName[name[i]] ||
        inOutcome[outcome[i]] ||
        (lane[i] >= 0 && inLane[lane[i]]) ||
        (errorNumber.has(i) && inError[errorNumber.get(i)]) ||
        (isHex && taskId(i).startsWith(wanted))
      ) {
        found[i] = 1;
        list.push(i);
      }
    }
    matches = list;
    matching = (i) => found[i] === 1;
    list.sort((a, b) => (leased[a] || created[a]) - (leased[b] || created[b]));
    byId("found").textContent = `${list.length.toLocaleString("en")} of ${N.toLocaleString("en")}`;
    draw();
  }
  function nextMatch(by) {
    if (!matches || !matches.length) return;
    matchPlace = (matchPlace + by + matches.length + (matchPlace < 0 && by < 0 ? 1 : 0)) % matches.length;
    byId("found").textContent = `${(matchPlace + 1).toLocaleString("en")} of ${matches.length.toLocaleString("en")}`;
    select(matches[matchPlace], true);
  }

  // ------------------------------------------------------------ pointer

  function hit(x, y, finger) {
    // the attempt or span under a point of the lanes; a finger is less exact than a mouse
    for (const one of lanes) {
      if (one.node || y < one.y || y >= one.y + one.height) continue;
      const at = atX(x),
        slack = (finger ? 10 : 2) / scale();
      for (const [from, to] of y < one.y + ROW && !one.node ? gapsOf(one.key) : [])
        if (at >= from && at <= to) return { gap: [one, from, to] };
      for (const span of one.spans)
        if (y > one.y + one.height - SPAN && at >= span[2] - slack && at <= span[3] + slack) return { span };
      const rows = one.levels[Math.min(one.levels.length - 1, Math.max(0, Math.floor((y - one.y - 1) / one.pitch)))];
      if (!rows) return {};
      let low = 0,
        high = rows.length;
      while (low < high) {
        const middle = (low + high) >> 1;
        if (until(rows[middle]) < at - slack) low = middle + 1;
        else high = middle;
      }
      let best = -1,
        away = Infinity;
      for (let place = low; place < Math.min(low + 50, rows.length); place++) {
        const i = rows[place],
          off = at < leased[i] ? leased[i] - at : at > until(i) ? at - until(i) : 0;
        if (off < away) {
          away = off;
          best = i;
        }
        if (leased[i] > at + slack) break;
      }
      return away <= slack ? { row: best } : {};
    }
    return {};
  }
  const point = (event, element) => {
    const place = element.getBoundingClientRect();
    return [((event.clientX - place.left) * width) / place.width, event.clientY - place.top];
  };
  let drag = null;
  svg.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    drag = { x: event.clientX, view: view.slice(), moved: false };
    svg.setPointerCapture(event.pointerId);
  });
  svg.addEventListener("pointermove", (event) => {
    if (drag && Math.abs(event.clientX - drag.x) > 3) {
      drag.moved = true;
      svg.classList.add("dragging");
      hideTip();
      const by = (drag.x - event.clientX) / scale();
      look(drag.view[0] + by, drag.view[1] + by);
      return;
    }
    if (drag) return;
    const [x, y] = point(event, svg),
      under = x < LEFT ? {} : hit(x, y);
    const row = under.row === undefined ? -1 : under.row;
    if (row !== hovered) {
      hovered = row;
      draw();
    }
    if (row >= 0) showTip([title(row), factList(row)], event.clientX, event.clientY);
    else if (under.span) {
      const heading = html("h3"),
        list = html("dl");
      heading.append(html("bdi", under.span[0]));
      list.append(
        html("dt", "span of user code"),
        html("dd", duration(under.span[3] - under.span[2])),
        html("dt", "began"),
        html("dd", duration(under.span[2])),
      );
      if (under.span[5]) list.append(html("dt", "with"), html("dd", under.span[5]));
      showTip([heading, list], event.clientX, event.clientY);
    } else if (under.gap) {
      const [one, from, to] = under.gap,
        list = html("dl");
      list.append(html("dt", "idle"), html("dd", duration(to - from)), html("dt", "from"), html("dd", duration(from)));
      list.append(html("dt", "why"), html("dd", whyOf(one.key, from)));
      showTip([html("h3", one.title), list], event.clientX, event.clientY);
    } else hideTip();
  });
  const gapsOf = (key) => D.gaps.filter((gap) => gap[0] === key).map((gap) => [gap[1], gap[2]]);
  function whyOf(key, from) {
    const place = D.gaps.findIndex((gap) => gap[0] === key && gap[1] === from);
    const row = document.querySelectorAll(".gaps tbody tr")[place];
    return row ? row.lastElementChild.textContent : "";
  }
  svg.addEventListener("pointerup", (event) => {
    const was = drag;
    drag = null;
    svg.classList.remove("dragging");
    if (was && !was.moved) {
      const [x, y] = point(event, svg),
        under = hit(x, y, event.pointerType === "touch");
      select(under.row === undefined ? -1 : under.row, false);
      box.focus({ preventScroll: true });
    }
  });
  svg.addEventListener("pointerleave", () => {
    hideTip();
    if (hovered >= 0) {
      hovered = -1;
      draw();
    }
  });
  svg.addEventListener("dblclick", (event) => {
    const [x, y] = point(event, svg),
      under = hit(x, y);
    if (under.row !== undefined) zoomTo(under.row);
  });
  function zoomTo(i) {
    const begin = leased[i] === leased[i] ? leased[i] : created[i],
      length = Math.max(until(i) - begin, 10);
    look(begin - length * 0.3, until(i) + length * 0.3);
  }
  for (const element of [svg, head, strip])
    element.addEventListener(
      "wheel",
      (event) => {
        const [x] = point(event, element);
        if (event.ctrlKey || event.metaKey || event.altKey) {
          event.preventDefault();
          zoom(Math.exp(Math.max(-1, Math.min(1, event.deltaY * 0.004))), atX(Math.max(x, LEFT)));
        } else if (Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey) {
          event.preventDefault();
          pan((event.deltaX || event.deltaY) / width);
        }
      },
      { passive: false },
    );
  head.addEventListener("pointermove", (event) => {
    const [x, y] = point(event, head);
    if (x < LEFT) return hideTip();
    const at = atX(x);
    const said = y < AXIS ? marksAround(x) : [];
    if (said.length) {
      const list = html("ul");
      for (const text of said.slice(0, 8)) list.append(html("li", text));
      if (said.length > 8) list.append(html("li", `and ${said.length - 8} more`));
      return showTip([html("h3", "at " + duration(at)), list], event.clientX, event.clientY);
    }
    if (y > AXIS + CPUS + PATH + 8) return hideTip();
    if (y > AXIS + CPUS) {
      const step = path.find((one) => one.begin <= at && at <= one.end);
      if (!step) return hideTip();
      if (step.kind === 0) return showTip([title(step.row), factList(step.row)], event.clientX, event.clientY);
      const list = html("dl");
      list.append(
        html("dt", { 1: "waiting for arguments", 2: "ready, not placed", 3: "the driver" }[step.kind]),
        html("dd", duration(step.end - step.begin)),
      );
      if (step.row >= 0) list.append(html("dt", "task"), html("dd", D.names[name[step.row]]));
      return showTip([html("h3", "critical path"), list], event.clientX, event.clientY);
    }
    const each = (view[1] - view[0]) / 200,
      used = averages(at - each / 2, at + each / 2, 1),
      list = html("dl");
    list.append(html("dt", "in use"), html("dd", `${digits(used.busy[0])} of ${digits(used.capacity[0])}`));
    used.idle.forEach((layer, cause) => {
      if (layer[0] > 0.005) list.append(html("dt", digits(layer[0]) + " idle"), html("dd", D.causes[cause]));
    });
    showTip([html("h3", "CPUs around " + duration(at)), list], event.clientX, event.clientY);
  });
  head.addEventListener("pointerleave", hideTip);
  head.addEventListener("click", (event) => {
    const [x, y] = point(event, head),
      at = atX(x);
    const step = y > AXIS + CPUS ? path.find((one) => one.begin <= at && at <= one.end && one.row >= 0) : null;
    if (step) select(step.row, true);
  });
  strip.addEventListener("pointerdown", (event) => {
    brush = [point(event, strip)[0], point(event, strip)[0]];
    strip.setPointerCapture(event.pointerId);
  });
  strip.addEventListener("pointermove", (event) => {
    if (brush) {
      brush[1] = point(event, strip)[0];
      drawStrip();
    }
  });
  strip.addEventListener("pointerup", () => {
    if (!brush) return;
    const per = (whole[1] - whole[0]) / (width - LEFT - RIGHT);
    const [a, b] = brush.map((x) => (Math.max(LEFT, Math.min(width - RIGHT, x)) - LEFT) * per).sort((p, q) => p - q);
    brush = null;
    if (b - a > 4 * per) look(a, b);
    else look(a - (view[1] - view[0]) / 2, a + (view[1] - view[0]) / 2);
  });

  // ------------------------------------------------------------ keys and tools

  function neighbour(by) {
    if (selected < 0) {
      const first = lanes.find((one) => one.rows);
      if (first) select(first.levels[0][firstVisible(first.levels[0])] ?? first.levels[0][0], true);
      return;
    }
    const one = laneAt.get(lane[selected]),
      rows = one && one.levels.find((level) => level.includes(selected));
    const to = rows && rows[rows.indexOf(selected) + by];
    if (to !== undefined) select(to, true);
  }
  function alongPath(by) {
    if (!taskSteps.length) return;
    const place = taskSteps.findIndex((step) => step.row === selected);
    const to =
      taskSteps[
        place < 0 ? (by > 0 ? 0 : taskSteps.length - 1) : Math.max(0, Math.min(taskSteps.length - 1, place + by))
      ];
    select(to.row, true);
  }
  function showChain(on) {
    chainShown = on;
    byId("chain").checked = on;
    draw();
  }
  const KEYS = {
    ArrowLeft: () => pan(-0.15),
    ArrowRight: () => pan(0.15),
    "+": () => zoom(1 / 1.5),
    "=": () => zoom(1 / 1.5),
    "-": () => zoom(1.5),
    0: () => look(...whole),
    Home: () => look(...whole),
    ArrowUp: () => {
      box.scrollTop -= 60;
    },
    ArrowDown: () => {
      box.scrollTop += 60;
    },
    ",": () => neighbour(-1),
    ".": () => neighbour(1),
    "[": () => alongPath(-1),
    "]": () => alongPath(1),
    n: () => nextMatch(1),
    p: () => nextMatch(-1),
    z: () => {
      if (selected >= 0) zoomTo(selected);
    },
    c: () => showChain(!chainShown),
    "/": () => byId("search").focus(),
    "?": () => byId("keys").click(),
    Escape: () => {
      hideTip();
      if (selected >= 0) select(-1);
      else {
        byId("search").value = "";
        search("");
      }
    },
  };
  addEventListener("keydown", (event) => {
    const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName) && event.target.type !== "checkbox";
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (typing) {
      if (event.key === "Escape") {
        byId("search").value = "";
        search("");
        event.target.blur();
      } else if (event.key === "Enter") {
        nextMatch(event.shiftKey ? -1 : 1);
        event.preventDefault();
      }
      return;
    }
    if ((event.key === "ArrowUp" || event.key === "ArrowDown" || event.key === "Home") && event.target !== box) return;
    if (KEYS[event.key]) {
      KEYS[event.key]();
      event.preventDefault();
    }
  });
  let typing = 0;
  byId("search").addEventListener("input", (event) => {
    clearTimeout(typing);
    typing = setTimeout(() => search(event.target.value), N > 20000 ? 150 : 0);
  });
  byId("close").addEventListener("click", () => select(-1));
  byId("next").addEventListener("click", () => nextMatch(1));
  byId("before").addEventListener("click", () => nextMatch(-1));
  byId("in").addEventListener("click", () => zoom(1 / 1.5));
  byId("out").addEventListener("click", () => zoom(1.5));
  byId("fit").addEventListener("click", () => look(...whole));
  byId("chain").addEventListener("change", (event) => showChain(event.target.checked));
  byId("keys").addEventListener("click", () => {
    const help = byId("help");
    help.hidden = !help.hidden;
    byId("keys").setAttribute("aria-expanded", String(!help.hidden));
  });
  box.addEventListener("scroll", draw, { passive: true });

  (() => {
    // the legend: functions by their total time, then the marks
    const totals = new Float64Array(D.functions.length),
      counts = new Float64Array(D.functions.length);
    for (let i = 0; i < N; i++) {
      const f = D.function[name[i]];
      counts[f]++;
      if (leased[i] === leased[i]) totals[f] += until(i) - leased[i];
    }
    const order = [...D.functions.keys()].sort((a, b) => totals[b] - totals[a]),
      legend = byId("legend");
    const swatch = (kind, over) => {
      const box = make("svg", { class: "swatch", viewBox: "0 0 14 14" });
      box.append(make("rect", { width: 14, height: 14, class: kind }));
      if (over) box.append(make("rect", { width: 14, height: 14, class: over }));
      return box;
    };
    for (const f of order.slice(0, 14)) {
      const item = html("li"),
        button = html("button", undefined, { title: "Search for this function" }),
        text = html("span");
      text.append(html("bdi", D.functions[f]), ` ${counts[f].toLocaleString("en")}`);
      button.append(swatch(paint(D.colours[f]), texture(D.colours[f])), text);
      button.addEventListener("click", () => {
        byId("search").value = "=" + D.functions[f];
        search(byId("search").value);
      });
      item.append(button);
      legend.append(item);
    }
    if (order.length > 14) legend.append(html("li", `and ${order.length - 14} more functions`));
    const seen = new Set(outcome);
    for (const [which, text] of [
      [1, "failed"],
      [2, "failed, then retried"],
      [3, "cancelled"],
      [4, "still running"],
    ]) {
      if (!seen.has(which)) continue;
      const item = html("li");
      item.append(swatch("sample o" + which), text);
      legend.append(item);
    }
  })();

  document.querySelectorAll(".gaps tbody tr").forEach((row, place) => {
    // a button at each gap in the table shows it
    const [where, from, to] = D.gaps[place],
      go = html("button", "show");
    go.addEventListener("click", () => {
      look(from - (to - from) * 0.3, to + (to - from) * 0.3);
      box.scrollTop = laneAt.get(where).y - box.clientHeight / 2;
      byId("stage").scrollIntoView({ block: "nearest" });
    });
    row.firstElementChild.append(" ", go);
  });

  document.documentElement.classList.add("js");
  addEventListener("resize", draw);
  drawNow();
  window.miniray = {
    // for the other parts of the script
    D,
    N,
    name,
    lane,
    outcome,
    attempt,
    number,
    leased,
    until,
    path,
    paint,
    texture,
    rowOf: (task) => rowOf(task),
    parent,
    taskId,
    make,
    html,
    cut,
    duration,
    byId,
    look,
    select,
    search,
    setFilter,
    view: () => view,
    edges: () => [LEFT, width - RIGHT],
    xOf: (at) => xOf(at),
    size,
    whole,
    selected: () => selected,
    onDraw: (then) => listeners.push(then),
  };
})();
