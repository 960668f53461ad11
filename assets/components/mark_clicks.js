// Clicks on marked text, and what a screen reader says of a new answer: pages/parts/common/mark_clicks.py.
const listening = new WeakMap();

// A region that a screen reader speaks and nobody sees; its text changes in place.
function tell(parentElement, told) {
  let region = parentElement.querySelector("[role=status]");
  if (!region) {
    region = parentElement.appendChild(document.createElement("div"));
    region.setAttribute("role", "status");
    region.setAttribute("aria-live", "polite");
    region.style.cssText = "position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap";
  }
  if (region.textContent !== told) region.textContent = told;
}

export default function ({ parentElement, setTriggerValue, data }) {
  tell(parentElement, data || "");
  listening.get(parentElement)?.();
  const clicked = (event) => {
    if (event.type === "keydown" && event.key !== "Enter" && event.key !== " ") return;
    const mark = event.target instanceof Element ? event.target.closest("mark[data-why]") : null;
    if (!mark) return;
    event.preventDefault();
    setTriggerValue("mark", mark.dataset.why);
  };
  const stop = () => ["click", "keydown"].forEach((name) => document.removeEventListener(name, clicked));
  ["click", "keydown"].forEach((name) => document.addEventListener(name, clicked));
  listening.set(parentElement, stop);
  return stop;
}
