"use strict";

// What all charts of the page share: its colours, which know light from dark, and when to draw again.
const mixprec = (() => {
  const narrow = matchMedia("screen and (max-width: 760px)");
  const touch = matchMedia("(pointer: coarse)");

  function color(name) {
    return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  }

  function commonLayout() {
    return {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: getComputedStyle(document.body).fontFamily, size: 13, color: color("ink") },
      margin: { l: 8, r: 8, t: 8, b: 8 },
      hoverlabel: { bgcolor: color("paper"), bordercolor: color("line"), font: { color: color("ink"), size: 12 } },
      axis: {
        color: color("soft"), gridcolor: color("line"), zeroline: false, ticks: "", automargin: true,
        tickfont: { size: 12 }, fixedrange: touch.matches,
      },
    };
  }

  // Now, and whenever the colours or the room change.
  function redraw(draw) {
    draw();
    for (const query of [matchMedia("(prefers-color-scheme: dark)"), matchMedia("print"), narrow]) {
      query.addEventListener("change", draw);
    }
  }

  return { color, commonLayout, narrow, redraw, touch };
})();
