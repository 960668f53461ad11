// Taps on charts whose marks can be chosen: pages/parts/common/chart_style.py.
//
// Plotly chooses the mark that the pointer was over before the click. A finger is over none, so that the first tap chose
// nothing, and each further one what had been tapped before. A movement to where the finger comes down precedes it.
export default function () {
  if (document.documentElement.dataset.chartTaps) return;
  document.documentElement.dataset.chartTaps = "heard";
  const lead = (event) => {
    const layer = event.target instanceof Element ? event.target.closest(".nsewdrag") : null;
    if (!layer || event.touches.length !== 1) return;
    const { clientX, clientY } = event.touches[0];
    layer.dispatchEvent(new MouseEvent("mousemove", { bubbles: true, view: window, clientX, clientY }));
  };
  document.addEventListener("touchstart", lead, { capture: true, passive: true });
}
