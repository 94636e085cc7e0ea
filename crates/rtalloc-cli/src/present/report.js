// Comforts; the report says everything without them: sorting tables, filtering verdicts, following one allocator through
// figures and tables by pointing at it, and the values that lie where one points.
"use strict";
for (const heading of document.querySelectorAll("thead tr:last-child th")) {
  heading.addEventListener("click", () => {
    const body = heading.closest("table").tBodies[0];
    const column = heading.cellIndex;
    const up = heading.getAttribute("aria-sort") !== "ascending";
    const key = (row) => row.cells[column].dataset.v;
    const rows = [...body.rows].sort((a, b) => {
      const [x, y] = [key(a), key(b)];
      if (x === undefined || y === undefined) return (x === undefined) - (y === undefined);
      const order = isNaN(x) || isNaN(y) ? x.localeCompare(y) : x - y;
      return up ? order : -order;
    });
    for (const other of heading.parentNode.cells) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", up ? "ascending" : "descending");
    body.append(...rows);
  });
}

for (const button of document.querySelectorAll("[data-filter]")) {
  button.addEventListener("click", () => {
    const wanted = button.dataset.filter;
    for (const other of document.querySelectorAll("[data-filter]")) other.setAttribute("aria-pressed", other === button);
    for (const row of document.querySelectorAll("[data-verdict]")) row.hidden = wanted && row.dataset.verdict !== wanted;
  });
}

// One allocator in all figures and tables.
const allocator = (element) => {
  const of = element.closest && element.closest("[data-allocator], .plot [class]");
  if (!of) return null;
  if (of.dataset.allocator) return of.dataset.allocator;
  const name = /^[sf](\d+)$/.exec(of.getAttribute("class"));
  return name && name[1];
};
const focus = (index) => {
  if (document.body.dataset.focus === (index === null ? undefined : index)) return;
  for (const row of document.querySelectorAll("tr.lit")) row.classList.remove("lit");
  if (index === null) {
    delete document.body.dataset.focus;
    return;
  }
  document.body.dataset.focus = index;
  for (const name of document.querySelectorAll(`[data-allocator="${index}"]`)) name.closest("tr").classList.add("lit");
};

// What lies near the pointer in a figure: its points with values.
const places = new WeakMap();
const placesIn = (figure) => {
  if (!places.has(figure)) {
    places.set(figure, [...figure.querySelectorAll("[data-at]")].flatMap((of) =>
      of.dataset.at.split(";").filter(Boolean).map((text) => ({ of, values: text.split(" ").map(Number) }))));
  }
  return places.get(figure);
};
const tip = document.body.appendChild(document.createElement("div"));
tip.id = "tip";
tip.hidden = true;
let ring = null;
const mark = (figure, x, y) => {
  if (!ring) {
    ring = document.createElementNS(figure.namespaceURI, "circle");
    ring.setAttribute("r", 6);
    ring.setAttribute("class", "ring");
  }
  ring.setAttribute("cx", x);
  ring.setAttribute("cy", y);
  figure.append(ring);
};
const number = (value) => value.toLocaleString("en", { maximumFractionDigits: 3 });
const line = (text, value) => {
  const row = document.createElement("div");
  row.append(`${text}: `, Object.assign(document.createElement("b"), { textContent: number(value) }));
  return row;
};
const NEAR = 30;
const show = (event) => {
  const figure = event.target.closest && event.target.closest("svg.plot");
  const at = figure && new DOMPoint(event.clientX, event.clientY).matrixTransform(figure.getScreenCTM().inverse());
  const pointed = allocator(event.target);
  let best = null;
  for (const place of figure ? placesIn(figure) : []) {
    const away = Math.hypot(place.values[0] - at.x, place.values[1] - at.y);
    // The curve under the pointer comes before its neighbours.
    const own = pointed !== null && place.of.getAttribute("class") === `v${pointed}`;
    if (away < NEAR && (!best || (own && !best.own) || (own === best.own && away < best.away))) best = { place, away, own };
  }
  focus(pointed !== null ? pointed : best && best.place.of.getAttribute("class").slice(1));
  tip.hidden = !best;
  if (ring) ring.remove();
  if (!best) return;
  const { of, values: [x, y, across, up] } = best.place;
  const name = Object.assign(document.createElement("b"), { textContent: of.dataset.name });
  tip.replaceChildren(name, line(of.dataset.x, across), line(of.dataset.y, up));
  tip.style.left = `${Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8)}px`;
  tip.style.top = `${event.clientY + 18 + tip.offsetHeight > innerHeight ? event.clientY - tip.offsetHeight - 12 : event.clientY + 18}px`;
  mark(figure, x, y);
};
document.addEventListener("mousemove", show);
