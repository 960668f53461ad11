// Goes where the presenter of the class is: pages/parts/common/together.py.
// A link that is opened as the Back button would: Streamlit then takes every setting from it, and keeps the session.
export default function ({ data }) {
  const { room, number, link, stay } = data ?? {};
  if (!number) return;
  const followed = `philab-followed-${room}`;
  if (Number(sessionStorage.getItem(followed)) >= number) return;
  sessionStorage.setItem(followed, number);
  if (stay) return;
  history.pushState(null, "", new URL(link, location.href));
  dispatchEvent(new PopStateEvent("popstate"));
}
