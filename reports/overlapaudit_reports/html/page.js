"use strict";
// Draws the figures of the page. No text of a trace is given to plotly, which takes some of it for
// markup: names are shown in a box of our own, as text.

const LANE_COLOURS = {
  compute: "#4477aa", comm: "#aa3377", copy: "#228833", memset: "#ccbb44", graph: "#66ccee",
  idle: "#bbbbbb",
};
// Of the height of a row. Lanes that are mostly short stay visible on those that are mostly long.
const LANE_HEIGHTS = { compute: 0.8, graph: 0.8, comm: 0.8, copy: 0.56, memset: 0.4, idle: 0.5 };
const ROW_PX = 22;

window.addEventListener("error", (event) => overlapauditFailed(event.message));
window.addEventListener("unhandledrejection", (event) => overlapauditFailed(String(event.reason)));

function overlapauditFailed(message) {
  document.body.dataset.errors = `${document.body.dataset.errors || ""}${message}\n`;
  const place = document.getElementById("timeline-figure");
  if (!place || place.querySelector(".failed")) return;
  const said = document.createElement("p");
  said.className = "failed";
  said.textContent = `The figure could not be drawn: ${message}`;
  place.prepend(said);
}

function overlapauditDraw() {
  const data = document.getElementById("timeline-data");
  const drawn = data ? drawTimeline(unpacked(JSON.parse(data.textContent))) : Promise.resolve();
  drawn.then(() => { document.body.dataset.drawn = "true"; });
}

// The rectangles as arrays of one length: what was packed are steps from start to start within a
// group of one row and lane, and the time that is not covered.
function unpacked(data) {
  const row = [], lane = [], start = [];
  for (const [groupRow, groupLane, size] of data.groups) {
    let at = 0;
    for (let i = 0; i < size; i++) {
      at += data.step[row.length];
      row.push(groupRow);
      lane.push(groupLane);
      start.push(at);
    }
  }
  const covered = data.length.map((length, i) => length - data.gap[i]);
  const { length, count, name } = data;
  return { ...data, rectangles: { row, lane, start, length, covered, count, name } };
}

function drawTimeline(data) {
  const place = document.getElementById("timeline-figure");
  const layout = timelineLayout(data);
  const config = {
    responsive: true, displaylogo: false, showSendToCloud: false, plotlyServerURL: "",
    modeBarButtons: [["toImage", "zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]],
  };
  const traces = data.lanes.map((name) => ({
    type: "scatter", mode: "none", fill: "toself", hoverinfo: "skip", name,
    fillcolor: LANE_COLOURS[name],
  }));
  const present = [...new Set(data.groups.map(([, lane]) => lane))].sort();
  const shown = (range) => outlines(data, range, place.clientWidth).filter((_, lane) =>
    present.includes(lane));
  const first = shown(layout.xaxis.range);
  const drawn = present.map((lane, index) => ({ ...traces[lane], ...first[index] }));
  return Plotly.newPlot(place, drawn, layout, config).then(() => {
    place.on("plotly_relayout", () => {
      const now = shown(place._fullLayout.xaxis.range);
      Plotly.restyle(place, { x: now.map((one) => one.x), y: now.map((one) => one.y) });
    });
    showNames(place, data);
  });
}

// One outline a lane and row: along the bottom of the row, and up and down around each rectangle,
// so that a lane of thousands of rectangles is a few elements. Rectangles below a pixel become
// columns of a pixel, as high as the share of it that they cover.
function outlines(data, range, width) {
  const { row, lane, start, length, covered } = data.rectangles;
  const found = data.lanes.map(() => ({ x: [], y: [] }));
  const [from, to] = range.map((ms) => ms * 1e6 - data.origin_ns);
  const view = to - from, pixel = view / Math.max(200, width - 200);
  let group = -1, column = null, columnCovered = 0;

  const add = (i, left, right, share) => {
    const outline = found[lane[i]];
    const bottom = row[i] + 0.4;
    const height = LANE_HEIGHTS[data.lanes[lane[i]]] * Math.min(1, share);
    const top = bottom - Math.max(0.15, height); // so that nothing is too little to be seen
    const [a, b] = [(data.origin_ns + left) / 1e6, (data.origin_ns + right) / 1e6];
    outline.x.push(a, a, b, b);
    outline.y.push(bottom, top, top, bottom);
  };
  const flush = (i) => {
    if (column !== null) add(i, column * pixel, (column + 1) * pixel, columnCovered / pixel);
    column = null;
    columnCovered = 0;
  };

  for (let i = 0; i < row.length; i++) {
    const next = row[i] * data.lanes.length + lane[i];
    if (next !== group) {
      if (i > 0) flush(i - 1);
      const outline = found[lane[i]];
      if (outline.x.length) {
        outline.x.push(null);
        outline.y.push(null);
      }
      group = next;
    }
    // A view's width on either side is drawn too, for the time while the view is being moved.
    if (start[i] > to + view || start[i] + length[i] < from - view) continue;
    if (length[i] >= pixel) {
      flush(i);
      add(i, start[i], start[i] + length[i], covered[i] / length[i]);
      continue;
    }
    const at = Math.floor(start[i] / pixel);
    if (column !== null && at !== column) flush(i);
    column = at;
    columnCovered += covered[i];
  }
  if (row.length) flush(row.length - 1);
  return found;
}

function timelineLayout(data) {
  const from = data.origin_ns / 1e6, to = (data.origin_ns + data.span_ns) / 1e6;
  const margin = (to - from) * 0.005 || 0.001;
  return {
    height: data.rows.length * ROW_PX + 110,
    margin: { l: 170, r: 12, t: 40, b: 44 },
    font: { family: "inherit", size: 12, color: "#1b1f24" },
    paper_bgcolor: "#fff", plot_bgcolor: "#fff",
    dragmode: "zoom",
    hovermode: false,
    showlegend: true,
    legend: { orientation: "h", x: 0, y: 1, yanchor: "bottom", traceorder: "normal" },
    xaxis: {
      title: { text: "ms from the session start", standoff: 4 }, range: [from - margin, to + margin],
      gridcolor: "#e6eaee", zeroline: false, exponentformat: "none", separatethousands: true,
    },
    yaxis: {
      range: [data.rows.length - 0.5, -0.5], fixedrange: true, showgrid: false, zeroline: false,
      tickvals: data.rows.map((_, index) => index),
      ticktext: data.rows.map(([label, heading]) => (heading ? `<b>${label}</b>` : label)),
    },
  };
}

function showNames(place, data) {
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  place.append(tip);
  place.addEventListener("mouseleave", () => { tip.hidden = true; });
  place.addEventListener("mousemove", (event) => {
    const { xaxis, yaxis } = place._fullLayout;
    const box = place.getBoundingClientRect();
    const x = event.clientX - box.left, y = event.clientY - box.top;
    const pixel = Math.abs(xaxis.p2d(1) - xaxis.p2d(0)) * 1e6;
    const at = xaxis.p2d(x - xaxis._offset) * 1e6 - data.origin_ns;
    const found = rectangleAt(data, Math.round(yaxis.p2d(y - yaxis._offset)), at, pixel);
    tip.hidden = found < 0;
    if (found < 0) return;
    tip.textContent = description(data, found);
    tip.style.top = `${y + 18}px`;
    tip.style.left = `${Math.max(0, Math.min(x + 14, box.width - tip.offsetWidth - 4))}px`;
  });
}

// The shortest rectangle there, since it is drawn on top or hard to hit.
function rectangleAt(data, row, at, pixel) {
  const { row: rows, start, length } = data.rectangles;
  let found = -1;
  for (let i = 0; i < rows.length; i++) {
    if (rows[i] !== row || start[i] - pixel > at || start[i] + length[i] + pixel < at) continue;
    if (found < 0 || length[i] < length[found]) found = i;
  }
  return found;
}

function description(data, index) {
  const { row, lane, start, length, covered, count, name } = data.rectangles;
  const lines = [];
  if (name[index] >= 0) lines.push(data.names[name[index]]);
  if (count[index] > 1) {
    const what = data.lanes[lane[index]] === "idle" ? "idle times" : "operations";
    const share = length[index] ? (100 * covered[index]) / length[index] : 100;
    lines.push(`${count[index].toLocaleString("en")} ${what}, in ${share.toFixed(1)} % of the time`);
  }
  const from = ((data.origin_ns + start[index]) / 1e6).toFixed(6);
  const lasts = (length[index] / 1e3).toLocaleString("en", { minimumFractionDigits: 3 });
  lines.push(`${data.lanes[lane[index]]}, ${data.rows[row[index]][0]}`);
  lines.push(`from ${from} ms, for ${lasts} µs`);
  return lines.join("\n");
}
