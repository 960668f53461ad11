// Keeps the page that somebody wanted before they signed in, and goes there afterwards: pages/parts/access/gate.py.
// The provider leads back to the app's first page. The tab remembers the other one, and nothing of it is sent.
export default function ({ data }) {
  const key = "philab-wanted";
  const here = location.pathname + location.search;
  if (data.keep) {
    sessionStorage.setItem(key, here);
    return;
  }
  const wanted = sessionStorage.getItem(key);
  sessionStorage.removeItem(key);
  if (!wanted || wanted === here) return;
  history.pushState(null, "", wanted); // throws for an address of another server
  dispatchEvent(new PopStateEvent("popstate"));
}
