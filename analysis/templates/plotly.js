"use strict";

// Puts Plotly, which stands in the page packed, into window.Plotly.

async function unpackPlotly() {
  const script = document.createElement("script");
  script.textContent = await unpacked(document.getElementById("plotly"));
  document.head.append(script);
}
