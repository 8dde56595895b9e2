// Hears the server, keeps the state, and answers the mouse.

import { Floor, colour, distancePicture, mapPicture, scaleEnd } from "./drawing.js";

const element = (id) => document.getElementById(id);
const floor = new Floor(element("floor"));
const state = {};  // kind → {header, …}
let picked = null, heardAt = null, connected = false, wanted = false;

function redraw() {
  if (wanted) return;
  wanted = true;
  requestAnimationFrame(() => {
    wanted = false;
    floor.resize();
    const robot = state.robot?.header, source = state.prediction?.header.source;
    if (element("follow").checked && (robot || source)) floor.centre = robot ? [robot.x, robot.y] : [...source];
    floor.draw(state, {
      distance: element("show-distance").checked,
      map: element("show-map").checked,
      observed: element("show-observed").checked,
      completion: element("show-completion").value,
    }, picked);
  });
}

// A frame: the length of a JSON header, the header, the values.
function receive(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  take[header.kind](header, buffer, 4 + length);
  redraw();
}

const take = {
  map(header, buffer, start) {
    state.map = { header, picture: mapPicture(header, new Int8Array(buffer, start)) };
    element("frame").textContent = header.frame;
  },
  prediction(header, buffer, start) {
    const distance = new Float32Array(buffer, start), end = scaleEnd(distance);
    state.prediction = { header, picture: distancePicture(header, distance, end) };
    heardAt = performance.now() - Math.max(0, Date.now() - 1000 * header.heard);
    element("latency").textContent = `${header.latency_s.toFixed(2)} s`;
    element("completions").textContent = `${header.completions}, seed ${header.seed}`;
    element("far").textContent = `${end} m`;
    showPlace(header.source);
    offerCompletions(header.completions);
    if (picked) ask();
  },
  walls(header, buffer, start) {
    const all = new Float32Array(buffer, start), layers = [];
    let from = 0;
    for (const count of header.counts) layers.push(all.subarray(from, from += 4 * count));
    state.walls = { header, layers };
    const predicted = header.counts.slice(1);
    element("walls").textContent = `${header.counts[0]} seen, ` +
      (predicted.length ? `${Math.min(...predicted)}–${Math.max(...predicted)} drawn` : "none drawn");
  },
  robot(header) {
    state.robot = { header };
    showPlace([header.x, header.y]);
  },
};

function showPlace([x, y]) {
  element("robot").textContent = `${x.toFixed(2)}, ${y.toFixed(2)} m`;
}

function offerCompletions(count) {
  const choice = element("show-completion");
  while (choice.length > count + 2) choice.remove(choice.length - 1);
  for (let index = choice.length - 2; index < count; index++) {
    choice.add(new Option(`completion ${index + 1}`, String(index)));
  }
}

async function ask() {
  const [x, y] = picked;
  try {
    const answer = await fetch(`at?x=${x}&y=${y}`);
    if (answer.ok && picked[0] === x && picked[1] === y) show(await answer.json());
  } catch { /* the server is gone: the status says so */ }
}

function show(found) {
  const words = {
    none: "no prediction yet", outside: "outside the window", occupied: "a wall is seen here",
    unreachable: "not reached",
  };
  element("point").hidden = false;
  element("place").textContent = `${found.x.toFixed(2)}, ${found.y.toFixed(2)}`;
  element("distance").textContent = words[found.state] ?? `${found.distance.toFixed(2)} m`;
  element("spread").textContent = found.spread === null ? "–" : `± ${found.spread.toFixed(2)} m`;
  element("reach").textContent = found.reach_probability === null ? "–"
    : `${Math.round(100 * found.reach_probability)} %`;
}

function connect() {
  const socket = new WebSocket(`ws${location.protocol === "https:" ? "s" : ""}://${location.host}/live`);
  socket.binaryType = "arraybuffer";
  socket.onopen = () => { connected = true; };
  socket.onmessage = (event) => receive(event.data);
  socket.onclose = () => { connected = false; setTimeout(connect, 1000); };
}

function showStatus() {
  const status = element("status");
  status.classList.toggle("lost", !connected);
  status.textContent = !connected ? "the server does not answer"
    : heardAt === null ? (state.map ? "waiting for distances" : "waiting for a map and distances")
      : `heard ${Math.round((performance.now() - heardAt) / 1000)} s ago`;
}

let grip = null;  // where a drag began
floor.canvas.addEventListener("pointerdown", (event) => {
  grip = { x: event.clientX, y: event.clientY, centre: floor.centre, moved: false };
  floor.canvas.setPointerCapture(event.pointerId);
});
floor.canvas.addEventListener("pointermove", (event) => {
  if (!grip) return;
  const ratio = window.devicePixelRatio || 1, dx = event.clientX - grip.x, dy = event.clientY - grip.y;
  grip.moved ||= Math.hypot(dx, dy) > 4;
  if (!grip.moved) return;
  element("follow").checked = false;
  floor.centre = [grip.centre[0] - dx * ratio / floor.pixels, grip.centre[1] + dy * ratio / floor.pixels];
  redraw();
});
floor.canvas.addEventListener("pointerup", (event) => {
  if (grip && !grip.moved) {
    picked = floor.toMetres(event.clientX, event.clientY);
    ask();
    redraw();
  }
  grip = null;
});
floor.canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  floor.zoom(Math.exp(-event.deltaY / 500), event.clientX, event.clientY);
  redraw();
}, { passive: false });

const scale = element("scale").getContext("2d");
for (let x = 0; x < scale.canvas.width; x++) {
  scale.fillStyle = `rgb(${colour(x / scale.canvas.width).join(" ")})`;
  scale.fillRect(x, 0, 1, scale.canvas.height);
}
document.querySelectorAll("fieldset input, fieldset select").forEach((input) => input.addEventListener("change", redraw));
window.addEventListener("resize", redraw);
setInterval(showStatus, 500);
connect();
redraw();
window.floorgentView = { floor, state };  // for tests and curious people
