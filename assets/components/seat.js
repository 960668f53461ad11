// A browser's seat in a class: pages/parts/session/seat.py.
export default function ({ data }) {
  const secure = location.protocol === "https:" ? "; Secure" : "";
  document.cookie = `${data.name}=${data.seat}; path=/; max-age=${data.seconds}; SameSite=Lax${secure}`;
}
