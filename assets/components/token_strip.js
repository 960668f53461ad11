// The tokens of a text and what models expected there: pages/parts/playground/token_strip.py.
const chosen = new WeakMap();

const made = (name, text, kind) => {
  const one = document.createElement(name);
  if (text !== undefined) one.textContent = text;
  if (kind) one.className = kind;
  return one;
};

const shown = (piece) => piece.replaceAll("\n", "↵").replaceAll(" ", "␣").replace(/^␣(?=.)/, "");

const table = (model) => {
  const drawn = made("table");
  drawn.append(made("caption", model.name + (model.chance ? ": " + model.chance : "")));
  for (const [piece, chance, share] of model.likeliest) {
    const row = made("tr"), bar = made("td", undefined, "bar"), length = made("i");
    length.style.width = (100 * share).toFixed(1) + "%";
    bar.append(length);
    row.append(made("td", shown(piece)), bar, made("td", chance));
    drawn.append(row);
  }
  return drawn;
};

export default function ({ parentElement, data }) {
  const root = parentElement.querySelector(".strip");
  const [text, here, models] = ["text", "here", "models"].map((kind) => made("div", undefined, kind));
  root.replaceChildren(text, here, models);
  text.tabIndex = 0;
  text.setAttribute("role", "group");
  text.setAttribute("aria-label", "The text, token by token: move with the left and right arrow keys");
  here.setAttribute("aria-live", "polite");
  const tokens = data.tokens.map((token, number) => {
    text.append(token.before);
    const span = made("span", token.text, "token");
    span.style.setProperty("--heat", Math.abs(token.heat));
    span.style.setProperty("--hue", token.heat < 0 ? "#56b4e9" : "#f0823a");
    span.onclick = () => choose(number);
    text.append(span);
    return span;
  });
  text.append(data.after);
  if (!tokens.length) return;
  const choose = (number) => {
    const now = Math.max(0, Math.min(tokens.length - 1, number));
    tokens.forEach((span, other) => span.classList.toggle("chosen", other === now));
    chosen.set(parentElement, now);
    const token = data.tokens[now];
    here.replaceChildren(`Token ${now + 1} of ${tokens.length}: `, made("b", `“${shown(token.text)}”`));
    models.replaceChildren(...token.models.map(table));
    tokens[now].scrollIntoView({ block: "nearest", inline: "nearest" });
  };
  text.onkeydown = (event) => {
    const steps = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (steps === undefined) return;
    event.preventDefault();
    choose(chosen.get(parentElement) + steps);
  };
  choose(chosen.get(parentElement) ?? data.chosen);
}
