// An interactive view of a submitted scene against the true one. WebGL 2, no library, no network: the two scenes are
// scripts beside the page that call sceneact.take; meshes.py writes them and says what is in them.
"use strict";
(() => {
  const viewer = document.querySelector(".viewer");
  if (!viewer) return;
  const find = (name) => viewer.querySelector(name);
  const canvas = find("canvas"), bar = find(".viewer-bar"), message = find(".viewer-message");
  const slider = find("input[type=range]"), play = find("[data-do=play]"), label = find("output");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const FIELD = 0.6, AGREES = 0.02; // Vertical field of view in radians; what counts as the same, by the scene's radius.
  const state = { submission: true, truth: true, wireframe: false };
  const scenes = {}, sides = {};
  let gl, programs, view, home, center, radius, points, frames = 1, frame = 0, asked = 0, playing = 0, floor, depth;

  const say = (text) => { message.textContent = text; message.hidden = !text; };
  const color = (name) => {
    const text = getComputedStyle(viewer).getPropertyValue(`--${name}`).trim().slice(1);
    return [0, 2, 4].map((at) => parseInt(text.slice(at, at + 2), 16) / 255);
  };

  // ------------------------------------------------------------------------------------------------------- vectors
  const add = (a, b, s = 1) => a.map((value, i) => value + s * b[i]);
  const cross = (a, b) => [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
  const dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
  const unit = (a) => a.map((value) => value / (Math.hypot(...a) || 1));
  const IDENTITY = new Float32Array([1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1]);
  const outward = () => [
    Math.cos(view.up) * Math.cos(view.turn), Math.cos(view.up) * Math.sin(view.turn), Math.sin(view.up)];
  const axes = () => {
    const z = outward(), x = unit(cross([0, 0, 1], z));
    return [x, cross(z, x), z];
  };
  const lookAt = () => {
    const [x, y, z] = axes(), from = add(view.target, z, view.distance);
    return new Float32Array(
      [x[0], y[0], z[0], 0, x[1], y[1], z[1], 0, x[2], y[2], z[2], 0, -dot(x, from), -dot(y, from), -dot(z, from), 1]);
  };
  const lens = () => {
    const near = view.distance / 200, far = view.distance + 20 * radius, f = 1 / Math.tan(FIELD / 2);
    const depth = [(far + near) / (near - far), (2 * far * near) / (near - far)];
    return new Float32Array(
      [f * canvas.height / canvas.width, 0, 0, 0, 0, f, 0, 0, 0, 0, depth[0], -1, 0, 0, depth[1], 0]);
  };

  // -------------------------------------------------------------------------------------------------------- meshes
  const bytes = (text, Kind) => new Kind(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer);
  const upload = (places, normalized, corners, low, size, track) => {
    const mesh = { low, size, track, count: corners.length, corners, array: gl.createVertexArray() };
    gl.bindVertexArray(mesh.array);
    gl.bindBuffer(gl.ARRAY_BUFFER, gl.createBuffer());
    gl.bufferData(gl.ARRAY_BUFFER, places, gl.STATIC_DRAW);
    gl.enableVertexAttribArray(0);
    gl.vertexAttribPointer(0, 3, normalized ? gl.UNSIGNED_SHORT : gl.FLOAT, normalized, 0, 0);
    mesh.triangles = gl.createBuffer();
    gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, mesh.triangles);
    gl.bufferData(gl.ELEMENT_ARRAY_BUFFER, corners, gl.STATIC_DRAW);
    mesh.wall = null;
    mesh.type = corners instanceof Uint16Array ? gl.UNSIGNED_SHORT : gl.UNSIGNED_INT;
    return mesh;
  };
  const unpack = (part) => upload(
    bytes(part.v, Uint16Array), true, bytes(part.i, part.wide ? Uint32Array : Uint16Array), part.low, part.size,
    part.t ? bytes(part.t, Float32Array) : null);
  const edges = (mesh) => {
    if (!mesh.edges) {
      const c = mesh.corners, lines = new Uint32Array(2 * c.length);
      for (let i = 0; i < c.length; i += 3) lines.set([c[i], c[i + 1], c[i + 1], c[i + 2], c[i + 2], c[i]], 2 * i);
      mesh.edges = gl.createBuffer();
      gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, mesh.edges);
      gl.bufferData(gl.ELEMENT_ARRAY_BUFFER, lines, gl.STATIC_DRAW);
    }
    return mesh.edges;
  };
  // Lines as thin square rods, since WebGL draws lines one pixel wide.
  const rods = (lines, thickness) => {
    const places = [], corners = [];
    for (const [a, b] of lines) {
      const along = add(b, a, -1), x = unit(cross(along, Math.abs(along[2]) < Math.hypot(...along) * 0.9 ? [0, 0, 1] : [1, 0, 0]));
      const y = unit(cross(along, x)), at = places.length / 3;
      for (const end of [a, b])
        for (const [i, j] of [[1, 1], [-1, 1], [-1, -1], [1, -1]])
          places.push(...add(add(end, x, i * thickness), y, j * thickness));
      for (let k = 0; k < 4; k++) {
        const n = (k + 1) % 4;
        corners.push(at + k, at + n, at + 4 + n, at + k, at + 4 + n, at + 4 + k);
      }
    }
    return solid(places, corners);
  };
  const solid = (places, corners) =>
    upload(new Float32Array(places), false, new Uint32Array(corners), [0, 0, 0], [1, 1, 1], null);
  const place = (track, at, p) => [0, 1, 2].map((row) => {
    const k = 12 * at + 4 * row;
    return track[k] * p[0] + track[k + 1] * p[1] + track[k + 2] * p[2] + track[k + 3];
  });
  const paths = (parts) => parts.filter((part) => part.track).flatMap((part) => {
    const middle = part.low.map((low, i) => low + part.size[i] / 2), lines = [];
    for (let at = 1; at < part.track.length / 12; at++)
      lines.push([place(part.track, at - 1, middle), place(part.track, at, middle)]);
    return lines;
  });
  // Some of the vertices as they are in the present frame.
  const sample = (parts) => parts.flatMap((part) => {
    const steps = bytes(part.v, Uint16Array), track = part.t && bytes(part.t, Float32Array), found = [];
    const stride = 3 * Math.ceil(steps.length / 3 / Math.max(8, 4000 / parts.length));
    for (let k = 0; k < steps.length; k += stride) {
      const p = part.low.map((low, i) => low + steps[k + i] / 65535 * part.size[i]);
      found.push(track ? place(track, frame, p) : p);
    }
    return found;
  });
  const frustum = (eye) => {
    const m = eye.matrix, reach = radius * 0.25, half = reach * Math.tan(eye.fov * Math.PI / 360);
    const world = (p) => [0, 1, 2].map((row) => m[row][0] * p[0] + m[row][1] * p[1] + m[row][2] * p[2] + m[row][3]);
    const tip = world([0, 0, 0]);
    const rim = [[1, 1], [-1, 1], [-1, -1], [1, -1]].map(([i, j]) => world([i * half, j * half, -reach]));
    const up = world([0, 1.5 * half, -reach]);
    const lines = rim.flatMap((point, k) => [[tip, point], [point, rim[(k + 1) % 4]]]);
    lines.push([rim[0], up], [rim[1], up]);
    return { rods: rods(lines, radius * 0.006), faces: solid([tip, ...rim].flat(), [0, 1, 2, 0, 2, 3, 0, 3, 4, 0, 4, 1, 1, 2, 3, 1, 3, 4]) };
  };
  const side = (values) => {
    const parts = values.parts.map(unpack), lines = paths(parts);
    return {
      parts,
      extra: lines.length ? [rods(lines, radius * 0.002)] : [],
      frustum: values.eye && frustum(values.eye),
      links: values.links && values.links.length ? rods(values.links, radius * 0.003) : null,
    };
  };

  // ------------------------------------------------------------------------------------------------------- drawing
  const VERTEX = `#version 300 es
    layout(location=0) in vec3 place; uniform vec3 low, size; uniform mat4 pose, eye, lens; uniform float close;
    out vec3 seen;
    void main() {
      vec4 point = eye * pose * vec4(low + place * size, 1.0);
      seen = point.xyz;
      // The truth is drawn nearer by what counts as the same, so that it is in front where both agree.
      point.xyz *= 1.0 - close / length(point.xyz);
      gl_Position = lens * point;
    }`;
  const FRAGMENT = `#version 300 es
    precision highp float; in vec3 seen; uniform vec4 color; uniform bool lit, compare; uniform vec3 same;
    uniform highp sampler2D other; uniform mat4 lens; uniform float close; out vec4 result;
    void main() {
      float light = 1.0;
      vec3 rgb = color.rgb;
      if (compare) {
        float depth = lens[3][2] / (2.0 * texelFetch(other, ivec2(gl_FragCoord.xy), 0).r - 1.0 + lens[2][2]);
        if (abs(-depth - seen.z) < close) rgb = same;
      }
      if (lit) light = 0.42 + 0.62 * abs(dot(normalize(cross(dFdx(seen), dFdy(seen))), normalize(seen)));
      result = vec4(rgb * light, color.a);
    }`;
  const build = () => {
    const program = gl.createProgram();
    for (const [kind, text] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]]) {
      const shader = gl.createShader(kind);
      gl.shaderSource(shader, text);
      gl.compileShader(shader);
      gl.attachShader(program, shader);
    }
    gl.linkProgram(program);
    if (!gl.getProgramParameter(program, gl.LINK_STATUS)) throw new Error(gl.getProgramInfoLog(program));
    gl.useProgram(program);
    const at = (name) => gl.getUniformLocation(program, name);
    return Object.fromEntries(["low", "size", "pose", "eye", "lens", "close", "color", "lit", "compare", "same"].map((n) => [n, at(n)]));
  };
  const pose = (mesh) => {
    if (!mesh.track) return IDENTITY;
    const t = mesh.track.subarray(12 * Math.min(frame, mesh.track.length / 12 - 1));
    return new Float32Array([t[0], t[4], t[8], 0, t[1], t[5], t[9], 0, t[2], t[6], t[10], 0, t[3], t[7], t[11], 1]);
  };
  const paint = (meshes, rgb, { alpha = 1, lit = true, close = 0, compare = false, wire = false, lines = false } = {}) => {
    gl.uniform4f(programs.color, ...rgb, alpha);
    gl.uniform1i(programs.lit, lit && !wire && !lines);
    gl.uniform1f(programs.close, close);
    gl.uniform1i(programs.compare, compare);
    for (const mesh of meshes) {
      gl.bindVertexArray(mesh.array);
      gl.uniform3fv(programs.low, mesh.low);
      gl.uniform3fv(programs.size, mesh.size);
      gl.uniformMatrix4fv(programs.pose, false, pose(mesh));
      gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, wire ? edges(mesh) : mesh.triangles);
      const form = wire || lines ? gl.LINES : gl.TRIANGLES;
      gl.drawElements(form, wire ? 2 * mesh.count : mesh.count, wire ? gl.UNSIGNED_INT : mesh.type, 0);
    }
  };
  // The depth of the submission alone, which the truth is compared with.
  const fit = (width, height) => {
    if (!depth) {
      depth = { frame: gl.createFramebuffer(), texture: gl.createTexture(), blank: gl.createTexture() };
      for (const texture of [depth.blank, depth.texture]) {
        gl.bindTexture(gl.TEXTURE_2D, texture);
        for (const name of [gl.TEXTURE_MIN_FILTER, gl.TEXTURE_MAG_FILTER]) gl.texParameteri(gl.TEXTURE_2D, name, gl.NEAREST);
        gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA, 1, 1, 0, gl.RGBA, gl.UNSIGNED_BYTE, new Uint8Array(4));
      }
    }
    gl.bindTexture(gl.TEXTURE_2D, depth.texture);
    if (depth.width !== width || depth.height !== height) {
      Object.assign(depth, { width, height });
      gl.texImage2D(gl.TEXTURE_2D, 0, gl.DEPTH_COMPONENT24, width, height, 0, gl.DEPTH_COMPONENT, gl.UNSIGNED_INT, null);
    }
    gl.bindFramebuffer(gl.FRAMEBUFFER, depth.frame);
    gl.framebufferTexture2D(gl.FRAMEBUFFER, gl.DEPTH_ATTACHMENT, gl.TEXTURE_2D, depth.texture, 0);
    gl.drawBuffers([gl.NONE]);
    // Nothing may read the texture while it is being written.
    gl.bindTexture(gl.TEXTURE_2D, depth.blank);
    gl.clear(gl.DEPTH_BUFFER_BIT);
  };
  const draw = () => {
    asked = 0;
    if (!view || !gl) return;
    const sharp = Math.min(devicePixelRatio || 1, 2);
    const width = Math.max(1, Math.round(canvas.clientWidth * sharp)), height = Math.max(1, Math.round(canvas.clientHeight * sharp));
    if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
    gl.viewport(0, 0, width, height);
    gl.clearColor(...color("back"), 1);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    gl.uniformMatrix4fv(programs.eye, false, lookAt());
    gl.uniformMatrix4fv(programs.lens, false, lens());
    const mine = state.submission && sides.submission, true_ = state.truth && sides.truth, close = AGREES * radius;
    const compare = mine && true_ && !state.wireframe && mine.parts.length > 0;
    if (compare) {
      fit(width, height);
      paint(mine.parts, [0, 0, 0]);
      gl.bindFramebuffer(gl.FRAMEBUFFER, null);
      gl.bindTexture(gl.TEXTURE_2D, depth.texture);
    }
    paint([floor.grid], color("grid"), { lines: true });
    floor.axes.forEach((axis, i) => paint([axis], [[0.8, 0.15, 0.1], [0.1, 0.55, 0.15], [0.15, 0.3, 0.9]][i], { lit: false }));
    // The near walls of a room, and what shows its back, must not hide it.
    gl.enable(gl.CULL_FACE);
    paint(sides.truth.room.filter((mesh) => !mesh.wall || dot(mesh.wall, outward()) < 0.05), color("room"));
    gl.disable(gl.CULL_FACE);
    if (mine) {
      paint(mine.parts, color("submission"));
      paint(mine.extra, color("submission"), { lit: false });
    }
    if (true_) {
      gl.uniform3fv(programs.same, color("both"));
      paint(true_.parts, color("truth"), compare ? { close, compare } : { wire: state.wireframe });
      paint(true_.extra, color("truth"), { lit: false });
    }
    if (mine && true_ && mine.links) paint([mine.links], color("join"), { lit: false });
    for (const [shown, name] of [[mine, "submission"], [true_, "truth"]]) {
      if (!shown || !shown.frustum) continue;
      paint([shown.frustum.rods], color(name), { lit: false });
      gl.enable(gl.BLEND);
      gl.depthMask(false);
      paint([shown.frustum.faces], color(name), { alpha: 0.3, lit: false });
      gl.depthMask(true);
      gl.disable(gl.BLEND);
    }
    canvas.dataset.drawn = Number(canvas.dataset.drawn || 0) + 1;
  };
  const ask = () => { if (!asked) asked = requestAnimationFrame(draw); };

  // ----------------------------------------------------------------------------------------------------------- set up
  const ground = (box, unit_) => {
    const low = [0, 1].map((i) => Math.floor(box[0][i] / unit_) - 1), high = [0, 1].map((i) => Math.ceil(box[1][i] / unit_) + 1);
    const places = [], line = (x, y, u, v) => places.push(x * unit_, y * unit_, 0, u * unit_, v * unit_, 0);
    for (let x = low[0]; x <= high[0]; x++) line(x, low[1], x, high[1]);
    for (let y = low[1]; y <= high[1]; y++) line(low[0], y, high[0], y);
    const corner = [low[0] * unit_, low[1] * unit_, 0];
    return {
      grid: solid(places, places.slice(0, places.length / 3).map((_, i) => i)),
      axes: [0, 1, 2].map((axis) => rods([[corner, corner.map((c, i) => c + (i === axis ? unit_ : 0))]], radius * 0.006)),
    };
  };
  const start = () => {
    const truth = scenes.truth, mine = scenes.submission, box = truth.box, span = add(box[1], box[0], -1);
    center = add(box[0], span, 0.5);
    radius = Math.max(Math.hypot(...span) / 2, 1e-3);
    const step = 10 ** Math.round(Math.log10(radius / 2.5));
    floor = ground(box, step);
    sides.truth = { ...side(truth), room: truth.room.map((part) => Object.assign(unpack(part), { wall: part.wall })) };
    if (mine) sides.submission = side(mine);
    frames = truth.frames;
    frame = Math.min(truth.telling, frames - 1);
    points = [truth, mine || { parts: [] }].flatMap((one) => [
      ...sample(one.parts), ...sample(one.room || []), ...(one.eye ? [one.eye.matrix.slice(0, 3).map((row) => row[3])] : [])]);
    // A piece far away must not make everything else small.
    points = points.map((p) => p.map((value, i) => Math.min(Math.max(value, box[0][i] - span[i]), box[1][i] + span[i])));
    home = { turn: -1.1, up: 0.5 };
    if (truth.view) {
      const from = truth.view.matrix.map((row) => row[3]).slice(0, 3), away = unit(add(from, center, -1));
      home = { turn: Math.atan2(away[1], away[0]), up: Math.min(Math.max(Math.asin(away[2]), 0.25), 1) };
    }
    const cell = find("[data-grid]");
    if (cell) cell.textContent = step >= 1 ? `${step} m` : `${Math.round(step * 100)} cm`;
    if (frames > 1) Object.assign(slider, { max: frames - 1, value: frame });
    find(".viewer-time").hidden = frames < 2;
    bar.hidden = false;
    show(frame);
    reset();
    say("");
    viewer.dataset.state = "ready";
  };
  // As near as the whole scene can be seen, in the middle of the picture.
  const reset = (up) => {
    view = { ...home, target: center.slice() };
    if (up !== undefined) Object.assign(view, { up, turn: -Math.PI / 2 });
    const tall = Math.tan(FIELD / 2), wide = tall * canvas.clientWidth / Math.max(canvas.clientHeight, 1), [x, y, z] = axes();
    const spread = points.map((p) => add(p, center, -1)).map((p) => [dot(p, x), dot(p, y), dot(p, z)]);
    view.distance = 3 * radius;
    for (let round = 0; round < 4; round++) {
      const seen = [0, 1].map((i) => spread.map((p) => p[i] / (view.distance - p[2])));
      const middle = seen.map((side) => (Math.min(...side) + Math.max(...side)) / 2 * view.distance);
      for (const p of spread) p.splice(0, 2, p[0] - middle[0], p[1] - middle[1]);
      view.target = add(add(view.target, x, middle[0]), y, middle[1]);
      view.distance = Math.max(...spread.map((p) => p[2] + 1.1 * Math.max(Math.abs(p[0]) / wide, Math.abs(p[1]) / tall)));
    }
    view.distance = Math.max(view.distance, radius / 10);
    ask();
  };
  const show = (number) => {
    frame = (number + frames) % frames;
    slider.value = frame;
    label.textContent = `frame ${frame + 1} of ${frames}`;
    ask();
  };
  const turn = (dx, dy) => {
    view.turn -= dx;
    view.up = Math.min(1.55, Math.max(-1.55, view.up + dy));
    ask();
  };
  const zoom = (factor) => {
    view.distance = Math.min(30 * radius, Math.max(radius / 30, view.distance * factor));
    ask();
  };
  const slide = (dx, dy) => {
    const [x, y] = axes(), scale = 2 * view.distance * Math.tan(FIELD / 2) / canvas.clientHeight;
    view.target = add(add(view.target, x, -dx * scale), y, dy * scale);
    ask();
  };
  const stop = () => { clearInterval(playing); playing = 0; play.setAttribute("aria-pressed", "false"); };

  // ------------------------------------------------------------------------------------------------------- controls
  bar.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button || !view) return;
    const what = button.dataset.do;
    if (what in state) {
      state[what] = !state[what];
      button.setAttribute("aria-pressed", state[what]);
      ask();
    } else if (what === "reset") reset();
    else if (what === "above") reset(1.55);
    else if (what === "play") {
      if (playing) return stop();
      button.setAttribute("aria-pressed", "true");
      playing = setInterval(() => show(frame + 1), frames > 32 ? 1000 / 24 : 1000 / 12);
    }
  });
  slider.addEventListener("input", () => { stop(); show(Number(slider.value)); });
  canvas.addEventListener("keydown", (event) => {
    if (!view || event.ctrlKey || event.metaKey || event.altKey) return;
    const step = event.shiftKey ? (x, y) => slide(-30 * x, 30 * y) : (x, y) => turn(0.12 * x, 0.12 * y);
    const keys = {
      ArrowLeft: () => step(1, 0), ArrowRight: () => step(-1, 0), ArrowUp: () => step(0, 1), ArrowDown: () => step(0, -1),
      "+": () => zoom(0.85), "=": () => zoom(0.85), "-": () => zoom(1 / 0.85), 0: () => reset(), Home: () => reset(),
    };
    if (!keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
  const touches = new Map();
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    touches.set(event.pointerId, [event.clientX, event.clientY]);
  });
  for (const kind of ["pointerup", "pointercancel"]) canvas.addEventListener(kind, (event) => touches.delete(event.pointerId));
  canvas.addEventListener("pointermove", (event) => {
    const before = touches.get(event.pointerId), now = [event.clientX, event.clientY];
    if (!before || !view) return;
    const [dx, dy] = [now[0] - before[0], now[1] - before[1]];
    if (touches.size > 1) {
      const [other] = [...touches].filter(([id]) => id !== event.pointerId).map(([, at]) => at);
      const far = (at) => Math.hypot(at[0] - other[0], at[1] - other[1]) || 1;
      zoom(far(before) / far(now));
      slide(dx / 2, dy / 2);
    } else if (event.shiftKey || event.buttons & 6) slide(dx, dy);
    else turn(dx * 0.008, dy * 0.008);
    touches.set(event.pointerId, now);
  });
  canvas.addEventListener("contextmenu", (event) => event.preventDefault());
  canvas.addEventListener("wheel", (event) => {
    // The wheel scrolls the page until the view has been clicked.
    if (!view || document.activeElement !== canvas) return;
    event.preventDefault();
    zoom(Math.exp(Math.max(-100, Math.min(100, event.deltaY)) * 0.002));
  }, { passive: false });
  canvas.addEventListener("webglcontextlost", () => { gl = null; say("The browser has taken the 3D view away; reload the page."); });

  // -------------------------------------------------------------------------------------------------------- loading
  window.sceneact = {
    take: (slot, values) => { scenes[slot] = values; },
    picture: () => { draw(); return canvas.toDataURL(); },
  };
  const load = (address) => new Promise((resolve, reject) => {
    const script = document.createElement("script");
    Object.assign(script, { src: address, onload: resolve, onerror: () => reject(new Error(`${address} is missing`)) });
    document.head.append(script);
  });
  const begin = async () => {
    try {
      gl = canvas.getContext("webgl2", { alpha: false, antialias: true });
      if (!gl) {
        viewer.dataset.state = "none";
        canvas.hidden = true;
        return say("This browser shows no WebGL 2, which the 3D view needs; the pictures below show the same scenes.");
      }
      // A canvas with a context is black until something is drawn, and the scenes may take a while.
      gl.clearColor(...color("back"), 1);
      gl.clear(gl.COLOR_BUFFER_BIT);
      programs = build();
      gl.enable(gl.DEPTH_TEST);
      gl.depthFunc(gl.LEQUAL);
      gl.blendFunc(gl.SRC_ALPHA, gl.ONE_MINUS_SRC_ALPHA);
      for (const address of [viewer.dataset.truth, viewer.dataset.submission]) if (address) await load(address);
      start();
      new ResizeObserver(ask).observe(canvas);
      dark.addEventListener("change", ask);
    } catch (problem) {
      viewer.dataset.state = "failed";
      say(`The 3D view cannot be shown: ${problem.message}.`);
    }
  };
  say("The 3D view is loading.");
  new IntersectionObserver((seen, observer) => {
    if (!seen.some((entry) => entry.isIntersecting)) return;
    observer.disconnect();
    begin();
  }, { rootMargin: "200px" }).observe(viewer);
})();
