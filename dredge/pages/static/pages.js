// Draws charts, polls a running run, and opens links into Airflow from the pages' frame. The pages work without it.
"use strict";

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const sizes = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
const sizeText = (value) => {
  let unit = 0;
  while (value >= 1024 && unit < sizes.length - 1) { value /= 1024; unit += 1; }
  return `${unit ? value.toFixed(1) : value} ${sizes[unit]}`;
};
const colourOf = (verdict) => css(verdict === "deleted" ? "--bad" : verdict === "kept" ? "--good" : "--wait");

const charts = {
  days: (data) => ({
    type: "bar",
    data: { labels: data.labels, datasets: [{ label: "reclaimed", data: data.bytes, backgroundColor: css("--accent") }] },
    options: { plugins: { legend: { display: false } } },
  }),
  runs: (data, canvas) => ({
    type: "bar",
    data: {
      labels: data.labels,
      datasets: [
        { label: "deleted", data: data.deleted, backgroundColor: css("--bad") },
        { label: "found, not deleted", data: data.found, backgroundColor: css("--wait") },
        { label: "held", data: data.held, backgroundColor: css("--good") },
      ],
    },
    options: {
      scales: { x: { stacked: true }, y: { stacked: true } },
      onClick: (_event, hit) => {
        if (hit.length) location.assign(new URL(canvas.dataset.place + data.run_ids[hit[0].index], document.baseURI));
      },
    },
  }),
  shares: (data) => ({
    type: "bar",
    data: {
      labels: data.labels,
      datasets: [{ label: "bytes", data: data.bytes, backgroundColor: data.verdicts.map(colourOf) }],
    },
    options: { indexAxis: "y", plugins: { legend: { display: false } } },
  }),
};

// Figures that are not bytes.
charts.ages = (data) => ({
  type: "bar",
  data: { labels: data.labels, datasets: [{ label: "rows", data: data.rows, backgroundColor: css("--wait") }] },
  options: {
    plugins: { legend: { display: false }, tooltip: {} },
    scales: { y: { ticks: { precision: 0, color: css("--text") } } },
    plain: true,
  },
});

const draw = (canvas) => {
  const data = JSON.parse(canvas.parentElement.querySelector("script").textContent);
  const config = charts[canvas.dataset.chart](data, canvas);
  const bytes = canvas.dataset.chart === "shares" ? "x" : "y";
  const look = { ticks: { color: css("--text") }, grid: { color: css("--line") } };
  const scales = config.options.scales ?? {};
  config.options = {
    ...config.options,
    animation: false,
    maintainAspectRatio: false,
    scales: {
      x: { ...look, ...scales.x },
      y: { ...look, ...scales.y },
    },
    plugins: {
      legend: { labels: { color: css("--text") } },
      tooltip: { callbacks: { label: (item) => `${item.dataset.label}: ${sizeText(item.raw)}` } },
      ...config.options.plugins,
    },
  };
  if (!config.options.plain) config.options.scales[bytes].ticks = { color: css("--text"), callback: sizeText };
  new Chart(canvas, config);
};

const follow = (frame) => {
  const ask = async () => {
    try {
      const answer = await fetch(new URL(frame.dataset.poll, document.baseURI), { credentials: "same-origin" });
      if (!answer.ok) throw new Error(answer.statusText);
      const state = await answer.json();
      if (!state.ongoing) { location.reload(); return; }
      frame.querySelector("[data-headline]").textContent = state.headline;
      frame.querySelector("[data-progress]").textContent = state.progress;
      for (const step of state.steps) {
        const cells = document.querySelector(`[data-step="${CSS.escape(step.step)}"]`)?.cells;
        if (cells) { cells[1].textContent = step.status; cells[2].textContent = step.seconds; }
      }
    } catch { /* the next look may be luckier */ }
    setTimeout(ask, 4000);
  };
  setTimeout(ask, 4000);
};

// A frame of Airflow's may not lead its window anywhere itself; a link of that window may. These pages lie a folder
// below Airflow's.
const lead = (event) => {
  const above = window.parent;
  if (above === window) return;
  event.preventDefault();
  const link = above.document.createElement("a");
  const root = above.document.querySelector("base")?.href ?? `${location.origin}/`;
  link.href = new URL(event.currentTarget.getAttribute("href").replace("../", ""), root).href;
  above.document.body.append(link);
  link.click();
  link.remove();
};

// A part that takes longer than its page is loaded after it.
const load = async (frame) => {
  try {
    const answer = await fetch(new URL(frame.dataset.load, document.baseURI), { credentials: "same-origin" });
    if (!answer.ok) return;
    const found = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("[data-piece]");
    if (!found) return;
    frame.replaceChildren(...found.children);
    leadAll(frame);
  } catch { /* the link stays */ }
};
const leadAll = (within) =>
  within.querySelectorAll("[data-airflow]").forEach((link) => link.addEventListener("click", lead));

document.querySelectorAll("[data-chart]").forEach(draw);
document.querySelectorAll("[data-poll]").forEach(follow);
document.querySelectorAll("[data-load]").forEach(load);
leadAll(document);
document.querySelector("[data-skip]").addEventListener("click", () => document.getElementById("content").focus());
