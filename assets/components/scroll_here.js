// Brings the place where it stands into view, once for each number: pages/parts/common/scroll.py.
export default function ({ data, parentElement }) {
  const { number, ifLow } = data ?? {};
  if (!number || document.body.dataset.philabScrolled === String(number)) return;
  document.body.dataset.philabScrolled = String(number);
  const place = parentElement.host ?? parentElement;
  if (ifLow && place.getBoundingClientRect().top < innerHeight / 2) return;
  place.style.scrollMarginTop = "5rem"; // the bar with the pages' names covers the top
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  place.scrollIntoView({ behavior: still ? "auto" : "smooth", block: "start" });
}
