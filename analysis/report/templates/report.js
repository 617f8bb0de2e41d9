"use strict";

// Data stands in the page once for each question, packed: its columns, and its figures, whose traces name columns.

const questions = new Map();

async function unpackQuestion(source) {
  const { columns, figures } = JSON.parse(await unpacked(source));
  for (const [key, column] of Object.entries(columns)) {
    if (!Array.isArray(column)) columns[key] = column.at.map((i) => column.of[i]);
  }
  questions.set(source.dataset.question, { columns, figures });
}

const sources = [...document.querySelectorAll("script[data-question]")];
const readable = sources.length > 0 && canUnpack();
const unpackedAll = readable ? Promise.all(sources.map(unpackQuestion)) : Promise.resolve();

// Plotly reads texts as HTML; what comes from a spec is text.
const ENTITIES = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
const text = (value) => (typeof value === "string" ? value.replace(/[&<>"]/g, (letter) => ENTITIES[letter]) : value);
const minus = (a, b) => (a === null || b === null ? null : a - b);

function filled(value, columns, [from, to]) {
  if (Array.isArray(value) || typeof value !== "object" || value === null) return value;
  const part = (name) => columns[name].slice(from, to).map(text);
  if (value.column !== undefined) {
    const less = value.minus === undefined ? null : part(value.minus);
    const scaled = (number) => (number === null || value.times === undefined ? number : number * value.times);
    return part(value.column).map((number, i) => scaled(less ? minus(number, less[i]) : number));
  }
  if (value.columns !== undefined) {
    const parts = value.columns.map(part);
    return parts[0].map((_, i) => parts.map((one) => one[i]));
  }
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, filled(inner, columns, [from, to])]));
}

function figure(plot) {
  const { columns, figures } = questions.get(plot.closest("figure").dataset.question);
  const { data, layout } = figures[plot.id];
  const traces = data.map(({ rows, ...trace }) => filled(trace, columns, rows ?? [0, 0]));
  return { data: traces, layout: structuredClone(layout) };
}

const config = {
  responsive: true,
  displayModeBar: false,
};

const NARROW_PX = 420, NARROW_TICKS = 4;

function draw(plot) {
  if (plot.dataset.drawn) return;
  plot.dataset.drawn = "yes";
  const { data, layout } = figure(plot);
  if (plot.clientWidth < NARROW_PX && layout.xaxis.nticks) layout.xaxis.nticks = NARROW_TICKS;
  Plotly.newPlot(plot, data, layout, config);
}

const plots = document.querySelectorAll(".plot");
const watcher = new IntersectionObserver(
  (entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      watcher.unobserve(target);
      draw(target);
    }
  },
  { rootMargin: "300px" },
);
const isDrawable = readable && plots.length > 0;
const drawable = isDrawable ? unpackedAll.then(unpackPlotly) : Promise.resolve();
document.body.classList.toggle("undrawn", !isDrawable);
drawable.then(() => isDrawable && plots.forEach((plot) => watcher.observe(plot)));

// Every figure as SVG, and its data as CSV.

function save(name, type, content) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([content], { type }));
  link.download = `${document.body.dataset.name}-${name}`.replace(/[^\w.-]+/g, "-");
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

function csv(name) {
  const { columns } = questions.get(name);
  const names = Object.keys(columns);
  const quoted = (value) => {
    const words = value === null ? "" : String(value);
    return /[",\r\n]/.test(words) ? `"${words.replaceAll('"', '""')}"` : words;
  };
  const rows = columns[names[0]].map((_, i) => names.map((one) => quoted(columns[one][i])).join(","));
  return [names.map(quoted).join(","), ...rows, ""].join("\r\n");
}

async function svg(holder) {
  const plot = holder.querySelector(".plot");
  await drawable;
  if (!plot) return new XMLSerializer().serializeToString(holder.querySelector("svg"));
  const { data, layout } = figure(plot);
  Object.assign(layout, { paper_bgcolor: "#ffffff", width: plot.clientWidth });
  if (data.some((trace) => trace.name)) {
    const LEGEND_PX = 40;
    Object.assign(layout, { showlegend: true, height: layout.height + LEGEND_PX });
    layout.legend = { orientation: "h", y: 1, yanchor: "bottom" };
    layout.margin = { ...layout.margin, t: layout.margin.t + LEGEND_PX };
  }
  const size = { format: "svg", width: layout.width, height: layout.height };
  const url = await Plotly.toImage({ data, layout }, size);
  return decodeURIComponent(url.slice(url.indexOf(",") + 1));
}

function button(words, label, act) {
  const made = document.createElement("button");
  made.type = "button";
  made.textContent = words;
  made.setAttribute("aria-label", label);
  made.addEventListener("click", act);
  return made;
}

for (const holder of document.querySelectorAll("figure")) {
  const { question: name, panel } = holder.dataset;
  const caption = holder.querySelector("figcaption");
  const taken = document.createElement("span");
  taken.className = "take";
  if (holder.querySelector(".plot, svg")) {
    const act = async () => save(`${panel}.svg`, "image/svg+xml", await svg(holder));
    const made = button("SVG", `Download ${caption.textContent} as SVG`, act);
    if (holder.querySelector(".plot")) made.className = "of-plot";
    taken.append(made);
  }
  if (readable) {
    const act = async () => {
      await unpackedAll;
      save(`${name}.csv`, "text/csv", csv(name));
    };
    taken.append(button("CSV", `Download the data of ${caption.textContent} as CSV`, act));
  }
  holder.prepend(taken);
}

// Tables sort by a column at a click on its name; again, and they sort the other way.

function sort(table, column, header) {
  const body = table.tBodies[0];
  const up = header.getAttribute("aria-sort") !== "ascending";
  for (const other of table.tHead.rows[0].cells) other.setAttribute("aria-sort", "none");
  header.setAttribute("aria-sort", up ? "ascending" : "descending");
  const rows = [...body.rows].map((row) => {
    const cell = row.cells[column];
    const number = cell.dataset.number;
    return { row, number: number === undefined ? null : Number(number), words: cell.textContent.trim() };
  });
  rows.sort((a, b) => {
    if (a.number !== null && b.number !== null) return up ? a.number - b.number : b.number - a.number;
    if (a.number !== null || b.number !== null) return a.number === null ? 1 : -1; // what is not known comes last
    return (up ? 1 : -1) * a.words.localeCompare(b.words, "en", { numeric: true });
  });
  body.append(...rows.map(({ row }) => row));
}

for (const table of document.querySelectorAll("table.sortable")) {
  [...table.tHead.rows[0].cells].forEach((header, column) => {
    const made = document.createElement("button");
    made.type = "button";
    made.append(...header.childNodes);
    made.addEventListener("click", () => sort(table, column, header));
    header.append(made);
    header.setAttribute("aria-sort", "none");
  });
}

// A table that is wider than its box is written tightly, and as cards if that is not enough: one for each row, with the
// columns' names beside the values.

const NOTHING = "\u2013";

function label(table) {
  const names = [...table.tHead.rows[0].cells].map((header) => header.textContent.trim());
  for (const row of table.tBodies[0].rows) {
    [...row.cells].forEach((cell, i) => {
      cell.dataset.label = names[i];
      cell.classList.toggle("nothing", cell.textContent.trim() === NOTHING);
    });
  }
}

function fit(box) {
  const table = box.firstElementChild;
  table.classList.remove("tight", "cards");
  for (const way of ["tight", "cards"]) {
    if (box.scrollWidth <= box.clientWidth) return;
    if (way === "cards") label(table);
    table.classList.add(way);
  }
}

const boxes = document.querySelectorAll(".scroll");
const widths = new Map([...boxes].map((box) => [box, box.clientWidth]));
for (const box of boxes) fit(box);
const resized = new ResizeObserver((entries) => {
  const changed = entries.map(({ target }) => target).filter((box) => widths.get(box) !== box.clientWidth);
  requestAnimationFrame(() => {
    for (const box of changed) {
      widths.set(box, box.clientWidth);
      fit(box);
    }
  });
});
for (const box of boxes) resized.observe(box);

// Plotly draws for the window's width; paper has another one, and nothing on paper can be unfolded.
const PAPER_PX = 690;
const folded = new Set();

addEventListener("beforeprint", () => {
  for (const details of document.querySelectorAll("details:not([open])")) {
    folded.add(details);
    details.open = true;
  }
  for (const plot of "Plotly" in window ? plots : []) {
    draw(plot);
    const columns = Math.min(2, plot.closest(".figures").childElementCount);
    Plotly.relayout(plot, { width: PAPER_PX / columns - 10 });
  }
});

addEventListener("afterprint", () => {
  for (const details of folded) details.open = false;
  folded.clear();
  for (const plot of "Plotly" in window ? plots : []) Plotly.relayout(plot, { width: null, autosize: true });
});
