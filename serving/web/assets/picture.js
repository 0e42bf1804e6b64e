// Shows the chosen picture beside its answer, from the browser's own memory. Without this script the form works as well.
let address = null;

function show() {
  const [file] = document.querySelector("#image").files;
  const frame = document.querySelector("#preview");
  if (address) URL.revokeObjectURL(address);
  address = file && file.type.startsWith("image/") ? URL.createObjectURL(file) : null;
  frame.hidden = !address;
  if (address) frame.querySelector("img").src = address;
}

function leave(form) {
  HTMLFormElement.prototype.submit.call(form); // form.submit is the button of this name
}

async function ask(form) {
  const field = document.querySelector("#image");
  const frame = document.querySelector("#preview");
  const button = document.querySelector("#submit");
  button.textContent = "Looking at the picture …";
  button.disabled = true;
  const body = new FormData(form);
  let page;
  try {
    const answer = await fetch(form.action, { method: "POST", body, headers: { Accept: "text/html" } });
    page = new DOMParser().parseFromString(await answer.text(), "text/html");
  } catch {
    return leave(form); // let the browser tell what is wrong
  }
  const main = page.querySelector("main");
  if (!main) return leave(form); // no page of ours: a failure, or a proxy that does not let the picture through
  main.querySelector("#image")?.replaceWith(field);
  main.querySelector("#preview")?.replaceWith(frame);
  document.querySelector("main").replaceWith(main);
  document.title = page.title;
  const heading = document.querySelector("#answer") ?? document.querySelector("h1");
  heading.tabIndex = -1;
  heading.focus();
}

document.addEventListener("change", (event) => event.target.id === "image" && show());
document.addEventListener("submit", (event) => {
  event.preventDefault();
  ask(event.target);
});
