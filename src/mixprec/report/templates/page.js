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
    evaluation: {
      marker: { size: (meta) => nested(7, 4, 22, meta), symbol: "circle-open", line: { width: 1.8 } },
      hovertemplate: "%{y:.4f}<extra>%{fullData.name}</extra>",
    },
    skipped: {
      marker: { size: 7, symbol: "x-thin", line: { width: 1.6 } },
      hovertemplate: "skipped<extra>%{fullData.name}</extra>",
    },
    memory: { hovertemplate: "%{y}: %{customdata}<extra>%{fullData.name}</extra>" },
  };

  // "#rrggbb" with an opacity.
  function translucent(shade, opacity) {
    return shade + Math.round(255 * opacity).toString(16).padStart(2, "0");
  }

  function styled(trace) {
    const { series, kind } = trace.meta;
    if (kind === "memory") {
      return { ...trace, ...LOOK.memory, marker: { color: color("format-" + (series % PALETTES)) } };
    }
    const shade = color("series-" + (series % PALETTES));
    const look = LOOK[kind];
    const sized = (value) => (typeof value === "function" ? value(trace.meta) : value);
    const { band, ...plain } = look;
    const drawn = { ...trace, ...plain };
    if (band) {
      drawn.fillcolor = translucent(shade, 0.16);
    }
    if (look.line) {
      drawn.line = { width: sized(look.line.width), color: shade, dash: series < PALETTES ? "solid" : "dot" };
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

  function draw() {
    for (const [name, chart] of charts) {
      Plotly.react("chart-" + name, chart.traces.map(styled), chart.bars ? barLayout(chart) : layout(chart), { responsive: true, displayModeBar: false });
    }
  }

  redraw(draw);
})();
