// Passes the lesson's keys on from a switch or checkbox, which uses none of them: pages/parts/lesson/screens.py.
// Text boxes keep their keys, and so do radio buttons and sliders, which arrows change.
const KEYS = ["ArrowLeft", "ArrowRight", "s"]; // of Back, Next and “Show the answer”
const listening = new WeakMap();

export default function ({ parentElement }) {
  listening.get(parentElement)?.();
  const pressed = (event) => {
    const { key, target } = event;
    if (!(target instanceof HTMLInputElement) || target.type !== "checkbox") return;
    if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    if (!KEYS.includes(key)) return;
    event.stopImmediatePropagation();
    event.preventDefault();
    const { code, keyCode } = event; // Streamlit's library of shortcuts reads the old `keyCode`
    document.body.dispatchEvent(new KeyboardEvent("keydown", { key, code, keyCode, which: keyCode, bubbles: true }));
  };
  const stop = () => window.removeEventListener("keydown", pressed, true);
  window.addEventListener("keydown", pressed, true); // before Streamlit's own listener
  listening.set(parentElement, stop);
  return stop;
}
