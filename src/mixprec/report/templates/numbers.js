// The map of sites, the exponents of the chosen tensor, and the time axis.
(() => {
  const { color, commonLayout, narrow, redraw } = mixprec;
  const runs = JSON.parse(document.getElementById("numbers-data").textContent);
  const byId = (id) => document.getElementById(id);
  if (!runs.length) return;

  // Upper ends of each colour's class but the last; of SQNR, lower ends [dB]. The words say the same.
  const MEASURES = {
    flushed: { figure: 1, words: 5, name: "underflow", ends: [0, 0.001, 0.01, 0.1, 0.5], told: ["0", "to 0.1 %", "to 1 %", "to 10 %", "to 50 %", "more"] },
    saturated: { figure: 3, words: 7, name: "saturation", ends: [0, 0.0001, 0.001, 0.01, 0.05], told: ["0", "to 0.01 %", "to 0.1 %", "to 1 %", "to 5 %", "more"] },
    sqnr: { figure: 4, words: 8, name: "SQNR", ends: [50, 35, 25, 15, 6], told: ["from 50 dB", "from 35", "from 25", "from 15", "from 6", "less"] },
  };
  const MANY = 16;

  const chosen = { run: 0, cast: 0, sample: 0, tensor: 0, measure: "flushed" };
  const run = () => runs[chosen.run];
  const sample = () => run().samples[chosen.sample];
  const cell = (tensor) => sample().cells[tensor];
  const figures = (tensor) => (cell(tensor) ? cell(tensor).figures[chosen.cast] : null);

  function element(tag, attributes = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  }

  function heat(found, measure = chosen.measure) {
    const { figure, ends } = MEASURES[measure];
    const value = found ? found[figure] : null;
    if (value === null) return "none";
    if (value === "inf") return 0;
    const beyond = measure === "sqnr" ? ends.findIndex((end) => value >= end) : ends.findIndex((end) => value <= end);
    return beyond < 0 ? ends.length : beyond;
  }

  function tensorName(tensor) {
    const { site, role } = run().tensors[tensor];
    return `${site} (${role})`;
  }

  // The map ---------------------------------------------------------------------------------------------------------

  function mapButton(tensor) {
    const button = element("button", { type: "button", "data-tensor": tensor, tabindex: "-1" });
    button.addEventListener("click", () => choose(tensor));
    return button;
  }

  function mapTable({ name, columns, rows }) {
    const byRole = name === "";
    const table = element("table", { class: columns.length > MANY ? "map many" : "map" });
    table.append(element("caption", {}, byRole ? "other sites" : `${name}, one column for each`));
    const head = element("tr", {}, element("td", byRole ? {} : { colspan: 2 }), ...columns.map((column) => element("th", { scope: "col" }, column)));
    table.append(element("thead", {}, head));
    const body = element("tbody");
    let before = null;
    for (const { label, role, cells } of rows) {
      const begins = label !== before;
      const row = element("tr", begins && before !== null && !byRole ? { class: "begins" } : {});
      row.append(element("th", { scope: "row", class: "name" }, begins ? label || "·" : ""));
      if (!byRole) row.append(element("th", { scope: "row", class: "role" }, role));
      for (const tensor of cells) row.append(element("td", {}, ...(tensor === null ? [] : [mapButton(tensor)])));
      body.append(row);
      before = label;
    }
    table.append(body);
    return element("div", { class: "map-scroll" }, table);
  }

  function buildMap() {
    byId("site-map").replaceChildren(...run().map.map(mapTable));
  }

  function paintMap() {
    const { words, name } = MEASURES[chosen.measure];
    for (const button of byId("site-map").querySelectorAll("button")) {
      const tensor = Number(button.dataset.tensor);
      const found = figures(tensor);
      const told = found ? found[words] : "–";
      button.className = `heat-${heat(found)}`;
      // In many narrow columns the unit is left to the title.
      const unit = button.closest(".many") ? "" : "\u2009%";
      button.textContent = told.replace(" %", unit).replace(" dB", "");
      button.title = found ? `${tensorName(tensor)}, ${found[0]}: ${name} ${told}` : `${tensorName(tensor)}: not sampled`;
      button.setAttribute("aria-label", button.title);
      button.setAttribute("aria-pressed", String(tensor === chosen.tensor));
      button.tabIndex = tensor === chosen.tensor ? 0 : -1;
    }
    const steps = MEASURES[chosen.measure].told.map((text, i) => element("li", { class: `heat-${i}` }, text));
    byId("map-scale").replaceChildren(...steps);
  }

  // Arrow keys go to the nearest tensor in their direction; the map has one stop for the tab key.
  function moveFocus(event) {
    const ways = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    const way = ways[event.key];
    if (!way || event.target.tagName !== "BUTTON") return;
    event.preventDefault();
    const middle = (button) => {
      const box = button.getBoundingClientRect();
      return [box.left + box.width / 2, box.top + box.height / 2];
    };
    const [x, y] = middle(event.target);
    let best = null;
    let least = Infinity;
    for (const button of byId("site-map").querySelectorAll("button")) {
      const [dx, dy] = middle(button).map((value, i) => value - [x, y][i]);
      const along = dx * way[0] + dy * way[1];
      const across = Math.abs(dx * way[1] + dy * way[0]);
      // Straight on before aside.
      if (along > 1 && along + 8 * across < least) [best, least] = [button, along + 8 * across];
    }
    if (best) {
      event.target.tabIndex = -1;
      best.tabIndex = 0;
      best.focus();
    }
  }

  function fillTable(id, rows) {
    const labels = [...byId(id).tHead.rows[0].cells].map((head) => head.textContent);
    const body = rows.map(([name, ...cells]) =>
      element("tr", {}, element("th", { scope: "row" }, name), ...cells.map((text, i) => element("td", { "data-label": labels[i + 1] }, element("span", {}, text)))));
    byId(id).tBodies[0].replaceChildren(...body);
  }

  function fillSites() {
    fillTable("site-table", run().tensors.flatMap((_, tensor) => {
      const found = figures(tensor);
      if (!found) return [];
      return [[tensorName(tensor), found[0], ...found.slice(5), cell(tensor).amax, cell(tensor).elements.toLocaleString("en")]];
    }));
  }

  // The chosen tensor -------------------------------------------------------------------------------------------------

  function power(exponent) {
    const rounded = Number.isInteger(exponent) ? exponent : exponent.toFixed(1);
    return `2<sup>${String(rounded).replace("-", "−")}</sup>`;
  }

  function plainPower(exponent) {
    return `2^${Number.isInteger(exponent) ? exponent : exponent.toFixed(1)}`.replace("-", "−");
  }

  function tellTensor() {
    const found = cell(chosen.tensor);
    byId("tensor-name").textContent = tensorName(chosen.tensor);
    if (!found) {
      byId("tensor-facts").textContent = `Not sampled at step ${sample().step}.`;
      fillTable("band-table", []);
      return;
    }
    const now = figures(chosen.tensor);
    const parts = [`${found.elements.toLocaleString("en")} elements, ${found.zeros} of them zero`];
    if (found.nonfinite) parts.push(`${found.nonfinite} infinite or NaN`);
    parts.push(`largest ${found.amax}`);
    const cast = now ? ` ${now[0]}${chosen.cast ? " would flush" : " flushed"} ${now[5]}, ${chosen.cast ? "saturate" : "saturated"} ${now[7]}; SQNR ${now[8]}.` : "";
    const scale = sample().scale ? `, loss scale ${sample().scale}` : "";
    const asRecorded = run().tensors[chosen.tensor].role === "grad_output" && sample().scale ? " Shown as it was, multiplied by the loss scale." : "";
    byId("tensor-facts").textContent = `Step ${sample().step}${scale}: ${parts.join("; ")}.${cast}${asRecorded}`;
    fillTable("band-table", found.bands.map(([name, low, , high, ...shares]) => [name, plainPower(low), plainPower(high), ...shares]));
  }

  function exponentRange(found) {
    // The narrow bands are shown whole; that of bf16 runs out of the picture.
    const edges = found.bands.filter(([, low, , high]) => high - low < 60).flatMap(([, low, , high]) => [low, high]);
    const low = Math.min(found.first, ...edges) - 1;
    const high = Math.max(found.first + found.counts.length, ...edges) + 1;
    return [low, high];
  }

  function drawExponents() {
    if (!mixprec.canDraw()) return;
    const found = cell(chosen.tensor);
    if (!found || !found.counts.length) {
      Plotly.purge("chart-exponents");
      byId("chart-exponents").hidden = true;
      return;
    }
    byId("chart-exponents").hidden = false;
    const total = found.counts.reduce((sum, count) => sum + count, 0);
    const range = exponentRange(found);
    const names = found.bands.map(([name]) => name);
    const clip = (value) => Math.min(Math.max(value, range[0]), range[1]);
    const piece = (from, to, shade, told) => ({
      type: "bar", orientation: "h", yaxis: "y2", width: 0.52, showlegend: false,
      y: names, base: found.bands.map((band) => clip(band[from])), x: found.bands.map((band) => clip(band[to]) - clip(band[from])),
      marker: { color: color(shade) },
      customdata: found.bands.map((band) => [plainPower(band[1]), plainPower(band[3]), band[4], band[5], band[6]]),
      hovertemplate: `%{y}<br>${told}<br>%{customdata[0]} to %{customdata[1]}<br>to zero %{customdata[2]}, subnormal %{customdata[3]}, above %{customdata[4]}<extra></extra>`,
    });
    const bars = {
      type: "bar", showlegend: false, width: 0.86,
      x: found.counts.map((_, i) => found.first + i + 0.5), y: found.counts.map((count) => count / total),
      marker: { color: color("bar") },
      customdata: found.counts.map((_, i) => [plainPower(found.first + i), plainPower(found.first + i + 1)]),
      hovertemplate: "%{customdata[0]} to %{customdata[1]}: %{y:.2%}<extra></extra>",
    };
    const traces = [bars, piece(2, 3, "band", "normal numbers"), piece(1, 2, "band-pale", "subnormal numbers")];
    Plotly.react("chart-exponents", traces, exponentLayout(found, range, names), { responsive: true, displayModeBar: false });
  }

  function exponentLayout(found, range, names) {
    const { axis, ...common } = commonLayout();
    const every = narrow.matches ? 16 : 8;
    const ticks = [];
    for (let tick = Math.ceil(range[0] / every) * every; tick <= range[1]; tick += every) ticks.push(tick);
    // On a narrow screen names stand over their bands; else beside them, and at the right what is lost.
    const over = narrow.matches;
    const label = (text, i, more) => ({ text, y: names[i], yref: "y2", showarrow: false, font: { size: 12, color: color("soft") }, ...more });
    const lost = ([, , , , zeroed, , above]) => [zeroed === "0 %" ? "" : `${zeroed} to zero`, above === "0 %" ? "" : `${above} above`].filter(Boolean).join(", ");
    const annotations = found.bands.flatMap((band, i) => over
      ? [label(`${band[0]}${lost(band) ? ": " + lost(band) : ""}`, i, { x: 0, xref: "paper", xanchor: "left", yshift: 15, font: { size: 11, color: color("ink") } })]
      : [label(lost(band) || "all inside", i, { x: 1, xref: "paper", xanchor: "right", font: { size: 12, color: color(lost(band) ? "ink" : "soft") } })]);
    const split = over ? 0.56 : 0.48;
    const room = over ? 0 : 0.13;
    return {
      ...common,
      barmode: "overlay", hovermode: "closest", dragmode: false, annotations,
      shapes: edgeLines(found, split),
      xaxis: {
        ...axis, range, domain: [0, 1 - room], fixedrange: true, showgrid: true, tickvals: ticks, ticktext: ticks.map(power), anchor: "y2",
        title: { text: "magnitude", font: { size: 12 } },
      },
      yaxis: { ...axis, domain: [split + 0.03, 1], tickformat: ".0%", rangemode: "tozero", fixedrange: true, nticks: 5 },
      yaxis2: {
        ...axis, domain: [0, split], autorange: "reversed", type: "category", showgrid: false, fixedrange: true,
        showticklabels: !over, tickfont: { size: 12.5, color: color("ink") }, ticklabelstandoff: 8,
      },
    };
  }

  // The ends of the first band, through the bars: what lies left of the first line is lost to zero.
  function edgeLines(found, split) {
    const [, low, , high] = found.bands[0];
    const line = { color: color("soft"), width: 1, dash: "dot" };
    return [low, high].map((x) => ({ type: "line", x0: x, x1: x, xref: "x", y0: narrow.matches ? split + 0.02 : split - 0.03, y1: 1, yref: "paper", line }));
  }

  // The time axis -------------------------------------------------------------------------------------------------------

  function drawTimeline() {
    if (!mixprec.canDraw()) return;
    const chart = byId("chart-timeline");
    const told = run().timeline;
    if (!chart) return;
    byId("timeline-name").hidden = chart.hidden = !told;
    if (!told) return;
    const { axis, ...common } = commonLayout();
    const hasScale = told.scale.x.length > 0;
    const rows = told.rows;
    chart.style.height = `${(hasScale ? 190 : 20) + 26 * rows.length + 44}px`;
    const shade = (kind) => color(kind === "event" ? "soft" : kind);
    const symbols = { event: "x-thin", fault: "diamond", warning: "triangle-up", note: "circle" };
    const traces = rows.map(({ name, kind, x, text }) => ({
      type: "scatter", mode: "markers", yaxis: "y2", showlegend: false, uid: `mark-${kind}-${name}`,
      x, y: x.map(() => name), text, hovertemplate: "step %{x}: %{text}<extra></extra>",
      marker: { symbol: symbols[kind], size: kind === "event" ? 9 : 11, color: shade(kind), line: { width: kind === "event" ? 1.8 : 0, color: shade(kind) } },
    }));
    if (hasScale) {
      traces.push({
        type: "scatter", mode: "lines", uid: "loss-scale", x: told.scale.x, y: told.scale.y.map((value) => Math.log2(value)), showlegend: false,
        line: { shape: "hv", width: 2, color: color("bar") }, hovertemplate: "step %{x}: loss scale 2^%{y}<extra></extra>",
      });
    }
    const marks = hasScale ? (26 * rows.length) / (26 * rows.length + 190) : 1;
    const margin = 0.01 * told.steps[1];
    const logs = told.scale.y.map((value) => Math.log2(value));
    const [low, high] = [Math.floor(Math.min(...logs)) - 1, Math.ceil(Math.max(...logs)) + 1];
    const every = Math.max(1, Math.ceil((high - low) / 6));
    const ticks = hasScale ? Array.from({ length: Math.floor((high - low) / every) + 1 }, (_, i) => low + i * every) : [];
    Plotly.react("chart-timeline", traces, {
      ...common,
      hovermode: "closest", dragmode: false,
      xaxis: { ...axis, range: [-margin, told.steps[1] + margin], showgrid: false, fixedrange: true, anchor: rows.length ? "y2" : "y", title: { text: "step", font: { size: 12 } } },
      yaxis: { ...axis, visible: hasScale, domain: [hasScale ? Math.min(0.96, marks + 0.04) : 0.99, 1], range: hasScale ? [low, high] : [0, 1], tickvals: ticks, ticktext: ticks.map(power), fixedrange: true, tickfont: { size: 12 } },
      yaxis2: {
        ...axis, visible: rows.length > 0, domain: [0, Math.max(0.01, marks - 0.02)], type: "category", categoryarray: rows.map(({ name }) => name).reverse(), categoryorder: "array",
        range: [-0.6, rows.length - 0.4], fixedrange: true, tickfont: { size: 12, color: color("ink") }, ticklabelstandoff: 6,
      },
    }, { responsive: true, displayModeBar: false });
  }

  // Choosing --------------------------------------------------------------------------------------------------------------

  function choose(tensor) {
    chosen.tensor = tensor;
    paintMap();
    tellTensor();
    drawExponents();
  }

  // The figure that is worst of any tensor, by its colour; of two alike what clips the largest values stands first.
  function worstMeasure() {
    const worstOf = (measure) => Math.max(...run().tensors.map((_, tensor) => Number(heat(figures(tensor), measure)) || 0));
    const most = Math.max(...Object.keys(MEASURES).map(worstOf));
    return most ? ["saturated", "flushed", "sqnr"].find((measure) => worstOf(measure) === most) : "flushed";
  }

  // The tensor that the chosen figure is worst of.
  function worst() {
    const { figure } = MEASURES[chosen.measure];
    const bad = (tensor) => {
      const found = figures(tensor);
      const value = found ? found[figure] : null;
      if (value === null || value === "inf") return -Infinity;
      return chosen.measure === "sqnr" ? -value : value;
    };
    // Where nothing is bad, a gradient: the tensor that formats are chosen for.
    const first = Math.max(0, run().tensors.findIndex(({ role }) => role === "grad_output"));
    return run().tensors.reduce((best, _, tensor) => (bad(tensor) > bad(best) ? tensor : best), first);
  }

  function showSample() {
    byId("numbers-step-now").textContent = `${sample().step}` + (run().of > run().samples.length ? ` (${run().samples.length} of ${run().of} samples)` : "");
    fillSites();
    choose(chosen.tensor);
  }

  function showRun() {
    const { casts, samples } = run();
    drawTimeline();
    const hasTensors = samples.length > 0;
    if (byId("tensor-parts")) byId("tensor-parts").hidden = !hasTensors;
    if (!hasTensors) return;
    chosen.cast = 0;
    chosen.sample = samples.length - 1;
    byId("numbers-cast").replaceChildren(...casts.map((cast, i) => element("option", { value: i }, i ? `if it were ${cast}` : cast)));
    byId("cast-choice").hidden = casts.length < 2;
    byId("step-choice").hidden = samples.length < 2;
    Object.assign(byId("numbers-step"), { max: samples.length - 1, value: samples.length - 1 });
    chosen.measure = worstMeasure();
    document.querySelector(`input[name="measure"][value="${chosen.measure}"]`).checked = true;
    buildMap();
    chosen.tensor = worst();
    showSample();
  }

  byId("numbers-run").replaceChildren(...runs.map(({ name }, i) => element("option", { value: i }, name)));
  byId("numbers-run").addEventListener("change", (event) => { chosen.run = Number(event.target.value); showRun(); });
  byId("run-choice").hidden = runs.length < 2;
  if (byId("site-map")) {
    byId("numbers-controls").hidden = false;
    byId("numbers-cast").addEventListener("change", (event) => { chosen.cast = Number(event.target.value); fillSites(); choose(chosen.tensor); });
    byId("numbers-step").addEventListener("input", (event) => { chosen.sample = Number(event.target.value); showSample(); });
    for (const radio of document.querySelectorAll('input[name="measure"]')) {
      radio.addEventListener("change", () => { chosen.measure = radio.value; paintMap(); });
    }
    byId("site-map").addEventListener("keydown", moveFocus);
  }
  // The first run that was sampled, else the first.
  chosen.run = Math.max(0, runs.findIndex(({ samples }) => samples.length));
  byId("numbers-run").value = chosen.run;
  showRun();
  redraw(() => {
    if (run().samples.length) drawExponents();
    drawTimeline();
  });
})();
