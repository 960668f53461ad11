// A browser's seat in a class: pages/parts/session/seat.py.
export default function ({ data }) {
  // Of several tabs that open at once, the first gives the browser its seat.
  if (new RegExp(`(^|; )${data.name}=[A-Za-z0-9_-]{22}(;|$)`).test(document.cookie)) return;
  const secure = location.protocol === "https:" ? "; Secure" : "";
  document.cookie = `${data.name}=${data.seat}; path=/; max-age=${data.seconds}; SameSite=Lax${secure}`;
}
