// Clicks on marked text: pages/parts/common/mark_clicks.py.
const listening = new WeakMap();

export default function ({ parentElement, setTriggerValue }) {
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
