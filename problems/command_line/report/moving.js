"use strict";
// Moves a machine along its weight. The numbers are in #numbers (problems/command_line/report/moving.py writes them,
// moving_page.py says what to draw); every picture is an SVG made here. Nothing is fetched, and text is only ever text.
(() => {
  const page = document.getElementById("moving");
  const data = JSON.parse(document.getElementById("numbers").textContent);

  // 64-bit floats, least significant byte first, in base64
  const decoded = (text) => {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const view = new DataView(bytes.buffer);
    return Float64Array.from({ length: bytes.length / 8 }, (_, k) => view.getFloat64(8 * k, true));
  };
  const each = (record, change) => Object.fromEntries(Object.entries(record).map(([name, one]) => [name, change(one)]));

  const stops = decoded(data.stops);
  const constants = each(data.constants, decoded);
  const curves = data.curves.map((one) => ({ ...one, values: decoded(one.values) }));
  const vectors = each(data.vectors, (one) =>
    one.take ? one : { offset: decoded(one.offset), matrix: decoded(one.matrix) });
  const [eigenvalues, knots, rows] = ["eigenvalues", "knots", "rows"].map((name) =>
    name in data.state ? decoded(data.state[name]) : null);

  let stop = data.start;
  let choice = 0;
  let state = null;

  // The state at a value p of the weight: 1/(s + 1/p) for gamma, linear between knots for zeta and rho.
  const stateAt = (p) => {
    if (eigenvalues) return eigenvalues.map((s) => 1 / (s + 1 / p));
    const width = data.state.width;
    const at = Math.min(Math.max(p, knots[0]), knots[knots.length - 1]);
    let k = 0;
    while (k < knots.length - 2 && knots[k + 1] <= at) k += 1;
    const after = Math.min(k + 1, knots.length - 1);
    const gap = knots[after] - knots[k];
    const share = gap > 0 ? (at - knots[k]) / gap : 0;
    return Float64Array.from({ length: width }, (_, j) =>
      (1 - share) * rows[k * width + j] + share * rows[after * width + j]);
  };

  // offset + matrix * state, or entries of the state
  const vector = (name) => {
    const one = vectors[name];
    if (one.take) return Float64Array.from(one.take, (k) => (k < 0 ? 0 : state[k]));
    return one.offset.map((start, i) => {
      let sum = start;
      for (let k = 0; k < state.length; k += 1) sum += one.matrix[i * state.length + k] * state[k];
      return sum;
    });
  };

  // What a mark refers to: a number, a name ("#" is the number of the chosen input), or [operation, ...].
  const value = (what) => {
    if (typeof what === "number") return what;
    if (Array.isArray(what)) {
      const [operation, ...parts] = what;
      const [a, b] = parts.map(value);
      if (operation === "-") return a.map((x, i) => x - (typeof b === "number" ? b : b[i]));
      if (operation === "per weight") return a.map((x) => x / stops[stop]);
      if (operation === "times") return a.map((x, i) => x * b[i]);
      if (operation === "largest") return a.reduce((most, x) => Math.max(most, Math.abs(x)), 0);
      if (operation === "negative") return -a;
      if (operation === "entry") return a[stop];
      if (operation === "entry list") return [a[stop]];
      throw new Error(`unknown operation ${operation}`);
    }
    const name = what.replace("#", String(choice));
    if (name === "weight") return stops[stop];
    if (name === "stops") return stops;
    if (name.startsWith("curve:")) return curves.find((one) => one.name === name.slice(6)).values;
    return constants[name] || vector(name);
  };

  const written = (x, digits = 4) => {
    if (x === 0) return "0";
    const size = Math.abs(x);
    if (size >= 1e5 || size < 1e-3) return x.toExponential(Math.max(digits - 2, 0)).replace(/\.?0*e\+?/, "e");
    return String(Number(x.toPrecision(digits)));
  };

  const node = (tag, attributes = {}, text = null) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, set] of Object.entries(attributes)) made.setAttribute(name, set);
    if (text !== null) made.textContent = text;
    return made;
  };

  const WIDTH = 480, HEIGHT = 320, LEFT = 78, RIGHT = 24, TOP = 10, BELOW = 58;

  // An axis: the range of what is drawn, or the one given; its scale and its ticks.
  const axisOf = (asked, values, low, high) => {
    let [from, to] = [asked.from, asked.to];
    if (from === undefined) {
      const seen = values.flatMap((part) => (typeof part === "number" ? [part] : Array.from(part)))
        .filter((x) => Number.isFinite(x) && !(asked.log && x <= 0));
      if (!seen.length) seen.push(1); // nothing to draw
      from = Math.min(...seen);
      to = Math.max(...seen);
      if (asked.even) [from, to] = [-Math.max(-from, to), Math.max(-from, to)];
      if (asked.log) [from, to] = [from / 1.15, to * 1.15];
      else {
        const room = 0.05 * (to - from) || Math.abs(to) * 0.1 || 1;
        [from, to] = [from - room, to + room];
      }
    }
    const inner = asked.log ? Math.log10 : (x) => x;
    const [a, b] = [inner(from), inner(to)];
    const ticks = [];
    if (asked.log) {
      const step = Math.max(1, Math.ceil((b - a) / 5));
      const mantissas = b - a < 1.5 ? [1, 2, 5] : [1];
      for (let power = Math.floor(a); power <= b; power += 1)
        for (const m of mantissas)
          if (power % step === 0 && m * 10 ** power >= from && m * 10 ** power <= to) ticks.push(m * 10 ** power);
    } else {
      const raw = (to - from) / 5;
      const unit = 10 ** Math.floor(Math.log10(raw));
      const step = [1, 2, 5, 10].map((m) => m * unit).find((one) => one >= raw);
      for (let k = Math.ceil(from / step); k * step <= to; k += 1) ticks.push(k * step);
    }
    return { ticks, place: (x) => low + ((inner(x) - a) / (b - a)) * (high - low), inside: (x) => x >= from && x <= to };
  };

  const dot = (kind, x, y, full) => {
    if (kind === "cross") return node("path", { d: `M${x - 3.5} ${y - 3.5}l7 7m0 -7l-7 7`, class: "held" });
    return node("circle", { cx: x, cy: y, r: full ? 4 : 3, class: full ? "active" : "train" });
  };

  const drawn = (panel, svg) => {
    const marks = panel.marks.map((one) => ({
      ...one, x: one.x === undefined ? null : value(one.x), y: one.y === undefined ? null : value(one.y),
      on: one.on === undefined ? null : value(one.on),
    }));
    const across = axisOf(panel.x, marks.filter((one) => one.x !== null).map((one) => one.x), LEFT, WIDTH - RIGHT);
    const up = axisOf(panel.y, marks.filter((one) => one.y !== null).map((one) => one.y), HEIGHT - BELOW, TOP);
    const inside = node("g");
    for (const t of across.ticks) {
      svg.append(node("line", { x1: across.place(t), x2: across.place(t), y1: TOP, y2: HEIGHT - BELOW, class: "grid" }),
        node("text", { x: across.place(t), y: HEIGHT - BELOW + 21, "text-anchor": "middle" }, written(t, 3)));
    }
    for (const t of up.ticks) {
      svg.append(node("line", { x1: LEFT, x2: WIDTH - RIGHT, y1: up.place(t), y2: up.place(t), class: "grid" }),
        node("text", { x: LEFT - 7, y: up.place(t) + 6, "text-anchor": "end" }, written(t, 3)));
    }
    svg.append(node("text", { x: (LEFT + WIDTH) / 2, y: HEIGHT - 9, "text-anchor": "middle" },
      panel.x.label.replace("#", data.inputs[choice])));
    const middle = (TOP + HEIGHT - BELOW) / 2;
    svg.append(node("text", { x: 17, y: middle, "text-anchor": "middle", transform: `rotate(-90 17 ${middle})` },
      panel.y.label.replace("#", data.inputs[choice])));
    for (const one of marks) {
      if (one.kind === "line") {
        let d = "";
        let pen = "M";
        one.y.forEach((y, i) => {
          const seen = Number.isFinite(across.place(one.x[i])) && Number.isFinite(up.place(y));
          if (seen) d += `${pen}${across.place(one.x[i]).toFixed(2)} ${up.place(y).toFixed(2)}`;
          pen = seen ? "L" : "M";
        });
        inside.append(node("path", { d, class: one.style }));
      } else if (one.kind === "level") {
        inside.append(node("line",
          { x1: LEFT, x2: WIDTH - RIGHT, y1: up.place(one.y), y2: up.place(one.y), class: one.style }));
      } else if (one.kind === "here") {
        if (!Number.isFinite(across.place(one.x))) continue; // zero has no place on a logarithmic axis
        inside.append(node("line", { x1: across.place(one.x), x2: across.place(one.x), y1: TOP, y2: HEIGHT - BELOW,
          class: one.style }));
      } else {
        one.y.forEach((y, i) => {
          if (!across.inside(one.x[i]) || !up.inside(y)) return;
          const [cx, cy] = [across.place(one.x[i]), up.place(y)];
          if (one.kind === "stem") inside.append(node("line", { x1: cx, x2: cx, y1: up.place(0), y2: cy, class: "stem" }));
          inside.append(dot(one.kind, cx, cy, one.on !== null && one.on[i] !== 0));
        });
      }
    }
    const hole = `hole-${panel.number}`;
    const clip = node("clipPath", { id: hole });
    clip.append(node("rect", { x: LEFT, y: TOP - 4, width: WIDTH - RIGHT - LEFT, height: HEIGHT - BELOW - TOP + 8 }));
    inside.setAttribute("clip-path", `url(#${hole})`);
    svg.append(clip, inside);
  };

  const panels = data.panels.map((panel, number) => ({ ...panel, number, svg: document.getElementById(`panel-${number}`) }));
  const slider = document.getElementById("weight");
  const shown = document.getElementById("weight-value");
  const table = document.getElementById("curves");

  const draw = () => {
    state = stateAt(stops[stop]);
    const text = data.texts ? data.texts[stop] : `${data.sign} = ${written(stops[stop])}`;
    shown.textContent = stop === data.start ? `${text}, ${data.own}` : text;
    slider.value = String(stop);
    slider.setAttribute("aria-valuetext", text);
    curves.forEach((one, k) => {
      table.rows[k].cells[1].textContent = one.whole ? String(one.values[stop]) : written(one.values[stop]);
    });
    for (const panel of panels) {
      panel.svg.replaceChildren();
      drawn(panel, panel.svg);
    }
  };

  let waiting = false;
  const soon = () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; draw(); });
  };
  slider.addEventListener("input", () => { stop = Number(slider.value); soon(); });
  document.getElementById("own").addEventListener("click", () => { stop = data.start; draw(); });
  const select = document.getElementById("input");
  if (select) select.addEventListener("change", () => { choice = Number(select.value); draw(); });

  page.hidden = false;
  const still = document.getElementById("still");
  if (still) still.hidden = true;
  draw();
  // for tests, and for the curious at the console
  window.substrate = { stops, vector, move: (k) => { stop = k; draw(); } };
})();
