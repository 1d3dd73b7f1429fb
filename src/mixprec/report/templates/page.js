(() => {
  const { color, commonLayout, narrow, redraw, touch } = mixprec;
  const data = JSON.parse(document.getElementById("chart-data").textContent);
  const charts = Object.entries(data).filter(([name, chart]) => chart && document.getElementById("chart-" + name));
  const PALETTES = 8;

  // Curves that coincide lie inside one another: `depth` counts from 0 for the last recipe, which is on top and narrowest.
  function nested(least, step, most, { depth, of }) {
    return least + depth * Math.min(step, (most - least) / Math.max(1, of - 1));
  }

  // Line width, opacity and marker of each kind of trace.
  const LOOK = {
    band: { line: { width: 0 }, fill: "toself", hoverinfo: "skip", band: true },
    raw: { line: { width: 0.8 }, opacity: 0.14, hoverinfo: "skip" },
    seed: { line: { width: 1 }, opacity: 0.5, hoverinfo: "skip" },
    mean: { line: { width: (meta) => nested(2, 1.4, 8, meta) }, hovertemplate: "%{y:.4f}<extra>%{fullData.name}</extra>" },
    rate: { line: { width: 2 }, hovertemplate: "%{y:,.4~g} per second<extra>%{fullData.name}</extra>" },
    evaluation: {
      marker: { size: (meta) => nested(7, 4, 22, meta), symbol: "circle-open", line: { width: 1.8 } },
      hovertemplate: "%{y:.4f}<extra>%{fullData.name}</extra>",
    },
    skipped: {
      marker: { size: 7, symbol: "x-thin", line: { width: 1.6 } },
      hovertemplate: "skipped<extra>%{fullData.name}</extra>",
    },
    incident: {
      marker: { size: 11, symbol: "triangle-down", line: { width: 0 } },
      hovertemplate: "incident %{text}<extra>%{fullData.name}</extra>",
    },
    pair: { marker: { size: 15, symbol: "line-ns", line: { width: 1.6 } }, opacity: 0.7, cliponaxis: false, hovertemplate: "%{x:.4g}<extra>%{fullData.name}</extra>" },
    interval: { marker: { size: 11 }, bar: true, cliponaxis: false, hovertemplate: "%{x:.4g}<extra>%{fullData.name}</extra>" },
    time: { marker: { size: 11 }, bar: true, cliponaxis: false, hovertemplate: "median %{x:.4g} ms<extra>%{fullData.name}</extra>" },
    estimate: { hovertemplate: "%{x:.2f}× on %{y}<extra>%{fullData.name}</extra>" },
    memory: { hovertemplate: "%{y}: %{customdata}<extra>%{fullData.name}</extra>" },
  };

  // "#rrggbb" with an opacity.
  function translucent(shade, opacity) {
    return shade + Math.round(255 * opacity).toString(16).padStart(2, "0");
  }

  // Plotly takes some HTML in its texts; the names of recipes are none.
  function plain(text) {
    return typeof text === "string" ? text.replaceAll("&", "&amp;").replaceAll("<", "&lt;") : text;
  }

  function words({ name, x, y }) {
    return { name: plain(name), x: x.map(plain), y: y.map(plain) };
  }

  function styled(trace) {
    const { series, kind } = trace.meta;
    if (kind === "memory") {
      return { ...trace, ...LOOK.memory, ...words(trace), marker: { color: color("format-" + (series % PALETTES)) } };
    }
    const shade = color("series-" + (series % PALETTES));
    const look = LOOK[kind];
    const sized = (value) => (typeof value === "function" ? value(trace.meta) : value);
    const { band, bar, ...given } = look;
    const drawn = { ...trace, ...given, ...words(trace) };
    if (kind === "estimate") {
      drawn.marker = { color: shade };
      return drawn;
    }
    if (bar && drawn.error_x) {
      drawn.error_x = { ...drawn.error_x, color: shade, thickness: 2.5, width: 5 };
    }
    if (band) {
      drawn.fillcolor = translucent(shade, 0.16);
    }
    if (look.line) {
      drawn.line = { width: sized(look.line.width), color: shade, dash: trace.meta.dash || (series < PALETTES ? "solid" : "dot") };
    }
    if (look.marker) {
      const line = { ...look.marker.line, color: shade };
      drawn.marker = { ...look.marker, size: sized(look.marker.size), color: shade, line };
    }
    return drawn;
  }

  function layout(chart) {
    const { axis, ...common } = commonLayout();
    return {
      ...common,
      xaxis: { ...axis, showgrid: false, showline: true, linecolor: color("line"), range: chart.steps, title: { text: "step", font: { size: 12 } } },
      yaxis: {
        ...axis, range: chart.range || undefined, zeroline: chart.zero, zerolinecolor: color("soft"), zerolinewidth: 1,
      },
      legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", font: { size: 13 }, itemdoubleclick: "toggleothers" },
      hovermode: narrow.matches ? "closest" : "x unified",
      dragmode: touch.matches ? false : "zoom",
    };
  }

  // Stacked bars, the first recipe on top.
  function barLayout(chart) {
    const { xaxis, yaxis, ...common } = layout(chart);
    return {
      ...common,
      barmode: "stack", bargap: 0.45, hovermode: "closest", dragmode: false,
      xaxis: { ...xaxis, range: undefined, showgrid: true, showline: false, tickformat: "~s", ticksuffix: "B", rangemode: "tozero", title: undefined, fixedrange: true },
      yaxis: { ...yaxis, showgrid: false, autorange: "reversed", range: undefined, type: "category", fixedrange: true, tickfont: { size: 13, color: color("ink") }, ticklabelstandoff: 8 },
      legend: { ...common.legend, traceorder: "normal" },
    };
  }

  // A row for each recipe, the first on top; zero or the unit is told on the axis.
  function intervalLayout(chart) {
    const { xaxis, yaxis, ...common } = layout(chart);
    return {
      ...common,
      hovermode: "closest", dragmode: false, showlegend: false,
      xaxis: {
        ...xaxis, range: undefined, showgrid: true, showline: false, title: undefined, ticksuffix: chart.unit ? ` ${chart.unit}` : "",
        zeroline: Boolean(chart.zero), zerolinecolor: color("soft"), zerolinewidth: 1.5, rangemode: chart.zero ? "normal" : "tozero", fixedrange: true,
      },
      yaxis: { ...yaxis, showgrid: false, zeroline: false, autorange: "reversed", range: undefined, type: "category", fixedrange: true, tickfont: { size: 13, color: color("ink") }, ticklabelstandoff: 8 },
    };
  }

  // Bars side by side, with a line where a step is as long as the baseline's.
  function groupedLayout(chart) {
    const { xaxis, ...common } = barLayout(chart);
    const one = { type: "line", x0: 1, x1: 1, y0: 0, y1: 1, yref: "paper", line: { color: color("soft"), width: 1.5 } };
    return { ...common, barmode: "group", bargap: 0.25, shapes: [one], xaxis: { ...xaxis, tickformat: "", ticksuffix: "×" } };
  }

  function layoutOf(chart) {
    if (chart.grouped) return groupedLayout(chart);
    if (chart.bars) return barLayout(chart);
    return chart.intervals ? intervalLayout(chart) : layout(chart);
  }

  function draw() {
    for (const [name, chart] of charts) {
      Plotly.react("chart-" + name, chart.traces.map(styled), layoutOf(chart), { responsive: true, displayModeBar: false });
    }
  }

  redraw(draw);
})();
