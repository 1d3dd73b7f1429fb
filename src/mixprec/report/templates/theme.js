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

  // Once there is something to draw with, and whenever the colours or the room change.
  const waiting = [];

  function redraw(draw) {
    waiting.push(draw);
  }

  // Plotly is large and takes a second to start. It is kept compressed, and begun once the words can be read.
  async function unpacked(text) {
    const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
    const packed = new ReadableStream({ start(stream) { stream.enqueue(bytes); stream.close(); } });
    const reader = packed.pipeThrough(new DecompressionStream("gzip")).getReader();
    const decoder = new TextDecoder();
    let code = "";
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      code += decoder.decode(part.value, { stream: true });
    }
    return code + decoder.decode();
  }

  async function begin() {
    if (typeof DecompressionStream === "undefined") {
      document.querySelectorAll(".chart").forEach((chart) => {
        chart.textContent = "This browser is too old to draw the chart; the tables hold its numbers.";
      });
      return;
    }
    const script = document.createElement("script");
    script.textContent = await unpacked(document.getElementById("plotly").textContent.trim());
    document.head.append(script);
    for (const draw of waiting) {
      draw();
      for (const query of [matchMedia("(prefers-color-scheme: dark)"), matchMedia("print"), narrow]) {
        query.addEventListener("change", draw);
      }
    }
    document.dispatchEvent(new Event("mixprec-drawn"));
  }

  addEventListener("load", () => setTimeout(begin, 30)); // the words are painted first

  return { canDraw: () => typeof Plotly !== "undefined", color, commonLayout, narrow, redraw, touch };
})();
