"use strict";

const config = {
  responsive: true,
  displayModeBar: matchMedia("(hover: hover)").matches ? "hover" : false,
  displaylogo: false,
  modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"],
  toImageButtonOptions: { format: "svg" },
};

for (const source of document.querySelectorAll("script[data-plot]")) {
  const figure = JSON.parse(source.textContent);
  Plotly.newPlot(source.dataset.plot, figure.data, figure.layout, config);
}

// Plotly draws for the window's width; paper has another one, and nothing on paper can be unfolded.
const PAPER_PX = 690;
const folded = new Set();

addEventListener("beforeprint", () => {
  for (const details of document.querySelectorAll("details:not([open])")) {
    folded.add(details);
    details.open = true;
  }
  for (const plot of document.querySelectorAll(".plot")) {
    const columns = Math.min(2, plot.closest(".figures").childElementCount);
    Plotly.relayout(plot, { width: PAPER_PX / columns - 10 });
  }
});

addEventListener("afterprint", () => {
  for (const details of folded) details.open = false;
  folded.clear();
  for (const plot of document.querySelectorAll(".plot")) Plotly.relayout(plot, { width: null, autosize: true });
});
