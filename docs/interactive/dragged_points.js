"use strict";
// An LS-SVM with the kernel exp(-(x - z)^2 / sigma^2) that is solved here, with its certificate. The first part is
// numbers alone, and also runs in node, where a test compares it with the package; the second part is the page.

const UNIT = 2 ** -53; // half the distance of 1 to the next double
const KERNEL = 8 * UNIT; // a computed kernel value is this near: five roundings of its exponent, and those of exp

const kernelMatrix = (x, sigma) => x.map((a) => x.map((b) => Math.exp(-((a - b) * (a - b)) / (sigma * sigma))));

// The lower triangle L of A = L L', row by row.
const cholesky = (A) => {
  const L = A.map((row) => row.map(() => 0));
  for (let i = 0; i < A.length; i += 1) {
    for (let j = 0; j <= i; j += 1) {
      let sum = A[i][j];
      for (let k = 0; k < j; k += 1) sum -= L[i][k] * L[j][k];
      L[i][j] = i === j ? Math.sqrt(sum) : sum / L[j][j];
    }
  }
  return L;
};

const solveFactored = (L, right) => {
  const n = right.length;
  const z = right.slice();
  for (let i = 0; i < n; i += 1) {
    for (let k = 0; k < i; k += 1) z[i] -= L[i][k] * z[k];
    z[i] /= L[i][i];
  }
  for (let i = n - 1; i >= 0; i -= 1) {
    for (let k = i + 1; k < n; k += 1) z[i] -= L[k][i] * z[k];
    z[i] /= L[i][i];
  }
  return z;
};

const total = (values) => values.reduce((sum, value) => sum + value, 0);
const norm = (values) => Math.sqrt(total(values.map((value) => value * value)));

// alpha = A^-1 (y - b 1) and b = 1'A^-1 y / 1'A^-1 1 with A = K + I / gamma, for targets about their mean; alpha is made
// to add up to zero.
const solve = (x, y, sigma, gamma) => {
  const K = kernelMatrix(x, sigma);
  const L = cholesky(K.map((row, i) => row.map((value, j) => (i === j ? value + 1 / gamma : value))));
  const level = total(y) / y.length;
  const [eta, nu] = [solveFactored(L, y.map(() => 1)), solveFactored(L, y.map((value) => value - level))];
  const above = total(nu) / total(eta);
  const raw = nu.map((value, i) => value - above * eta[i]);
  const mean = total(raw) / raw.length;
  return { alpha: raw.map((value) => value - mean), bias: level + above };
};

const predict = (at, x, sigma, { alpha, bias }) =>
  bias + total(x.map((a, j) => alpha[j] * Math.exp(-((at - a) * (at - a)) / (sigma * sigma))));

// How far the fitted values f = K alpha + b are from those of the exact optimum, root mean square, at most:
// ||f - f*|| <= ||y - f - alpha / gamma|| where 1'alpha = 0. What 1'alpha lacks of zero, and the rounding of all that is
// computed here, are added: n + 5 operations on the sizes below in the residual, n + 1 in f, and the error of the kernel.
const certify = (x, y, sigma, gamma, { alpha, bias }) => {
  const n = x.length;
  const expansion = kernelMatrix(x, sigma).map((row) => total(row.map((value, j) => value * alpha[j])));
  const fitted = expansion.map((value) => value + bias);
  const residual = y.map((value, i) => value - bias - expansion[i] - alpha[i] / gamma);
  const size = total(alpha.map(Math.abs));
  const rounding = y.map((value, i) =>
    (n + 5) * UNIT * (size + Math.abs(value - bias) + Math.abs(alpha[i]) / gamma) + KERNEL * size
    + UNIT * Math.abs(fitted[i]) + ((n + 1) * UNIT + KERNEL) * size);
  const sum = Math.abs(total(alpha)) + n * UNIT * size;
  const unbalanced = sum * (2 + 1 / (n * gamma));
  // a thousandth more for the rounding of these few lines themselves
  const accuracy = 1.001 * ((norm(residual) + norm(rounding)) / Math.sqrt(n) + unbalanced);
  const mean = total(y) / n;
  const spread = norm(y.map((value) => value - mean)) / Math.sqrt(n);
  const least = n * 2 * UNIT * Math.max(...y.map(Math.abs));
  return { accuracy, spread, residual: norm(residual), sum: Math.abs(total(alpha)),
    holds: accuracy <= Math.max(1e-6 * spread, least), fitted };
};

if (typeof module !== "undefined") module.exports = { solve, certify, predict };

// ---- the page
if (typeof document !== "undefined") (() => {
  const WIDTH = window.innerWidth < 560 ? 400 : 800, HEIGHT = 0.25 * WIDTH + 220, LEFT = 46, RIGHT = 12, TOP = 12, BELOW = 34;
  const [LOW, HIGH, DOWN, UP] = [0, 10, -3, 3];
  const START = [[0.8, 0.4], [1.7, 1.5], [2.6, 1.9], [3.9, 0.7], [5.0, -0.6], [6.1, -1.7], [7.4, -1.2], [8.6, 0.3]];
  const spot = (id) => document.getElementById(id);
  const svg = spot("field");
  svg.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
  let points = START.map((point) => point.slice());
  let held = null;
  let spoiled = false;

  const across = (x) => LEFT + ((x - LOW) / (HIGH - LOW)) * (WIDTH - LEFT - RIGHT);
  const upward = (y) => HEIGHT - BELOW - ((y - DOWN) / (UP - DOWN)) * (HEIGHT - BELOW - TOP);
  const inside = (value, low, high) => Math.min(Math.max(value, low), high);
  const place = (event) => {
    const box = svg.getBoundingClientRect();
    const [px, py] = [((event.clientX - box.left) / box.width) * WIDTH, ((event.clientY - box.top) / box.height) * HEIGHT];
    const x = LOW + ((px - LEFT) / (WIDTH - LEFT - RIGHT)) * (HIGH - LOW);
    const y = DOWN + ((HEIGHT - BELOW - py) / (HEIGHT - BELOW - TOP)) * (UP - DOWN);
    return [inside(x, LOW, HIGH), inside(y, DOWN, UP)];
  };
  const node = (tag, attributes = {}, text = null) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, set] of Object.entries(attributes)) made.setAttribute(name, set);
    if (text !== null) made.textContent = text;
    return made;
  };
  const weight = () => 10 ** Number(spot("gamma").value);
  const width = () => 10 ** Number(spot("sigma").value);
  const short = (value) => (value === 0 ? "0" : Math.abs(value) < 1e-3 || Math.abs(value) >= 1e5
    ? value.toExponential(1) : String(Number(value.toPrecision(4))));

  const draw = () => {
    const [gamma, sigma] = [weight(), width()];
    const [x, y] = [points.map((point) => point[0]), points.map((point) => point[1])];
    const machine = solve(x, y, sigma, gamma);
    if (spoiled) machine.alpha[0] += 1e-3;
    const found = certify(x, y, sigma, gamma, machine);
    svg.replaceChildren();
    for (let t = LOW; t <= HIGH; t += 2)
      svg.append(node("line", { x1: across(t), x2: across(t), y1: TOP, y2: HEIGHT - BELOW, class: "grid" }),
        node("text", { x: across(t), y: HEIGHT - 10, "text-anchor": "middle" }, String(t)));
    for (let t = DOWN; t <= UP; t += 1)
      svg.append(node("line", { x1: LEFT, x2: WIDTH - RIGHT, y1: upward(t), y2: upward(t), class: "grid" }),
        node("text", { x: LEFT - 8, y: upward(t) + 5, "text-anchor": "end" }, String(t)));
    let d = "";
    for (let k = 0; k <= 300; k += 1) {
      const at = LOW + (k / 300) * (HIGH - LOW);
      d += `${k ? "L" : "M"}${across(at).toFixed(1)} ${inside(upward(predict(at, x, sigma, machine)), -1e4, 1e4).toFixed(1)}`;
    }
    svg.append(node("path", { d, class: "model" }));
    points.forEach(([a, b], k) => {
      svg.append(node("line", { x1: across(a), x2: across(a), y1: upward(b), y2: upward(inside(found.fitted[k], -9, 9)),
        class: "stem" }));
      const dot = node("circle", { cx: across(a), cy: upward(b), r: 9, class: "active", tabindex: 0, role: "button",
        "aria-label": `point ${k + 1} at ${short(a)}, ${short(b)}: arrow keys move it, Delete removes it` });
      dot.dataset.number = String(k);
      svg.append(dot);
    });
    const spanned = found.holds ? "holds" : "does not hold";
    spot("verdict").textContent =
      `${spanned}; fitted values within ${found.accuracy.toExponential(1)} of the exact optimum (spread of y ${short(found.spread)})`;
    spot("verdict").className = found.holds ? "holds" : "fails";
    const shown = { gamma: short(gamma), sigma: short(sigma), rows: points.length, residual: found.residual.toExponential(1),
      sum: found.sum.toExponential(1), bias: short(machine.bias),
      largest: short(Math.max(...machine.alpha.map(Math.abs))) };
    for (const [name, text] of Object.entries(shown)) spot(`shown-${name}`).textContent = String(text);
    window.dragged = { points, gamma, sigma, machine, found };
  };

  const remove = (k) => { if (points.length > 2) points.splice(k, 1); draw(); };
  svg.addEventListener("pointerdown", (event) => {
    const number = event.target.dataset.number;
    if (number === undefined) { points.push(place(event)); held = points.length - 1; } else held = Number(number);
    svg.setPointerCapture(event.pointerId);
    event.preventDefault();
    draw();
  });
  svg.addEventListener("pointermove", (event) => { if (held !== null) { points[held] = place(event); draw(); } });
  for (const name of ["pointerup", "pointercancel"]) svg.addEventListener(name, () => { held = null; });
  svg.addEventListener("dblclick", (event) => {
    const near = points.map(([a, b], k) => [Math.hypot(a - place(event)[0], b - place(event)[1]), k]).sort((p, q) => p[0] - q[0]);
    if (near[0][0] < 0.4) remove(near[0][1]);
  });
  svg.addEventListener("keydown", (event) => {
    const number = event.target.dataset.number;
    if (number === undefined) return;
    const k = Number(number);
    const step = { ArrowLeft: [-0.1, 0], ArrowRight: [0.1, 0], ArrowUp: [0, 0.1], ArrowDown: [0, -0.1] }[event.key];
    if (step) points[k] = [inside(points[k][0] + step[0], LOW, HIGH), inside(points[k][1] + step[1], DOWN, UP)];
    if (step) { event.preventDefault(); draw(); svg.querySelector(`[data-number="${k}"]`).focus(); }
    if (event.key === "Delete" || event.key === "Backspace") { event.preventDefault(); remove(k); }
  });
  for (const name of ["gamma", "sigma"]) spot(name).addEventListener("input", draw);
  spot("add").addEventListener("click", () => { points.push([5 + 4 * Math.sin(points.length * 2.4), 0]); draw(); });
  spot("remove").addEventListener("click", () => remove(points.length - 1));
  spot("again").addEventListener("click", () => { points = START.map((point) => point.slice()); draw(); });
  spot("spoil").addEventListener("change", (event) => { spoiled = event.target.checked; draw(); });
  spot("page").hidden = false;
  draw();
})();
