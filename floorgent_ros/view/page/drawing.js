// Draws the state on a canvas. Positions are metres in the map's frame; y points up.

const VIRIDIS = [[68, 1, 84], [72, 40, 120], [62, 74, 137], [49, 104, 142], [38, 130, 142],
  [31, 158, 137], [53, 183, 121], [110, 206, 88], [181, 222, 43], [253, 231, 37]];
const OBSERVED = "#ff5a4f", ROBOT = "#ff2e4d", UNREACHED = [52, 58, 68];

// The share 0…1 of the scale as [red, green, blue].
export function colour(share) {
  const at = Math.min(Math.max(share, 0), 1) * (VIRIDIS.length - 1);
  const low = Math.min(Math.floor(at), VIRIDIS.length - 2), part = at - low;
  return VIRIDIS[low].map((value, i) => Math.round(value + part * (VIRIDIS[low + 1][i] - value)));
}

// A completion's colour: the hues that RViz shows.
export function completionColour(index, count) {
  return `hsl(${360 * (0.12 + 0.75 * index / Math.max(count, 1))} 95% 62%)`;
}

// What 99 % of the finite distances keep, rounded up to 5 m.
export function scaleEnd(distance) {
  const finite = distance.filter(Number.isFinite).sort();
  if (!finite.length) return 40;
  return Math.max(10, Math.ceil(finite[Math.floor(0.99 * (finite.length - 1))] / 5) * 5);
}

// A grid's picture, one pixel a cell, its first row at the bottom: paint(value) → [r, g, b, a].
function picture(grid, values, paint) {
  const canvas = new OffscreenCanvas(grid.width, grid.height), context = canvas.getContext("2d");
  const image = context.createImageData(grid.width, grid.height);
  for (let row = 0; row < grid.height; row++) {
    let to = 4 * (grid.height - 1 - row) * grid.width, from = row * grid.width;
    for (let column = 0; column < grid.width; column++, to += 4) image.data.set(paint(values[from++]), to);
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

export function mapPicture(header, cells) {
  return picture(header, cells, (value) => {
    if (value < 0) return [0, 0, 0, 0];
    const shade = Math.round(255 * (1 - value / 100));
    return [shade, shade, shade, value >= 50 ? 255 : 60];  // free cells let the distance through
  });
}

export function distancePicture(header, distance, end) {
  return picture(header, distance, (value) => {
    if (Number.isNaN(value)) return [10, 12, 16, 255];
    return [...(Number.isFinite(value) ? colour(value / end) : UNREACHED), 255];
  });
}

export class Floor {
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.centre = [0, 0];
    this.pixels = 20;  // of the canvas, in a metre
  }

  // The canvas in device pixels, the window (40 m) filling it at first.
  resize() {
    const ratio = window.devicePixelRatio || 1, box = this.canvas.getBoundingClientRect();
    const [width, height] = [Math.round(box.width * ratio), Math.round(box.height * ratio)];
    if (this.canvas.width === width && this.canvas.height === height) return;
    if (!this.sized && width && height) this.pixels = Math.min(width, height) / 41;
    this.sized = true;
    [this.canvas.width, this.canvas.height] = [width, height];
  }

  // From a point of the page to metres and back.
  toMetres(clientX, clientY) {
    const ratio = window.devicePixelRatio || 1, box = this.canvas.getBoundingClientRect();
    return [
      this.centre[0] + ((clientX - box.left) * ratio - this.canvas.width / 2) / this.pixels,
      this.centre[1] - ((clientY - box.top) * ratio - this.canvas.height / 2) / this.pixels,
    ];
  }

  toClient(x, y) {
    const ratio = window.devicePixelRatio || 1, box = this.canvas.getBoundingClientRect();
    return [
      box.left + ((x - this.centre[0]) * this.pixels + this.canvas.width / 2) / ratio,
      box.top + ((this.centre[1] - y) * this.pixels + this.canvas.height / 2) / ratio,
    ];
  }

  zoom(factor, clientX, clientY) {
    const [x, y] = this.toMetres(clientX, clientY);
    const pixels = Math.min(Math.max(this.pixels * factor, 0.5), 800);
    const keep = this.pixels / pixels;
    this.centre = [x + (this.centre[0] - x) * keep, y + (this.centre[1] - y) * keep];
    this.pixels = pixels;
  }

  draw(state, shown, picked) {
    const { context, canvas } = this;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.fillStyle = "#23272e";
    context.fillRect(0, 0, canvas.width, canvas.height);
    const scale = this.pixels;
    context.setTransform(scale, 0, 0, -scale, canvas.width / 2 - scale * this.centre[0],
      canvas.height / 2 + scale * this.centre[1]);
    context.imageSmoothingEnabled = false;
    if (state.prediction && shown.distance) this.#grid(state.prediction, 0);
    if (state.map && shown.map) this.#grid(state.map, state.map.header.yaw);
    if (state.walls) this.#walls(state.walls, shown);
    const robot = state.robot?.header ?? (state.prediction && {
      x: state.prediction.header.source[0], y: state.prediction.header.source[1], yaw: null });
    if (robot) this.#robot(robot);
    if (picked) this.#cross(picked);
  }

  #grid({ header, picture: image }, yaw) {
    const { context } = this, { height, width, resolution } = header;
    context.save();
    context.translate(...header.origin);
    context.rotate(yaw);
    context.scale(resolution, -resolution);
    context.drawImage(image, 0, -height, width, height);
    context.restore();
  }

  #walls({ layers }, shown) {
    const count = layers.length - 1, thin = Math.max(0.06, 1.5 / this.pixels);
    for (let index = 0; index < count; index++) {
      if (shown.completion !== "all" && shown.completion !== String(index)) continue;
      this.#lines(layers[index + 1], completionColour(index, count), thin);
    }
    if (shown.observed) this.#lines(layers[0], OBSERVED, 1.6 * thin);
  }

  #lines(segments, style, width) {
    const { context } = this;
    context.strokeStyle = style;
    context.lineWidth = width;
    context.lineCap = "round";
    context.beginPath();
    for (let i = 0; i < segments.length; i += 4) {
      context.moveTo(segments[i], segments[i + 1]);
      context.lineTo(segments[i + 2], segments[i + 3]);
    }
    context.stroke();
  }

  #robot({ x, y, yaw }) {
    const { context } = this, radius = Math.max(0.25, 7 / this.pixels);
    context.fillStyle = ROBOT;
    context.strokeStyle = "white";
    context.lineWidth = radius / 5;
    context.beginPath();
    context.arc(x, y, radius, 0, 2 * Math.PI);
    context.fill();
    context.stroke();
    if (yaw === null) return;
    context.beginPath();
    context.moveTo(x, y);
    context.lineTo(x + radius * Math.cos(yaw), y + radius * Math.sin(yaw));
    context.stroke();
  }

  #cross([x, y]) {
    const { context } = this, arm = 9 / this.pixels;
    for (const [style, width] of [["black", 4], ["white", 2]]) {
      context.strokeStyle = style;
      context.lineWidth = width / this.pixels;
      context.beginPath();
      context.moveTo(x - arm, y);
      context.lineTo(x + arm, y);
      context.moveTo(x, y - arm);
      context.lineTo(x, y + arm);
      context.stroke();
    }
  }
}
