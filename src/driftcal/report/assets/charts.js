// A small chart module: lines, bars, reliability diagrams and histograms as SVG.
// All text is set with textContent, so it is never parsed as HTML. Every chart is one tab stop; arrow keys move through its values.
const Charts = (() => {
  const SVG = "http://www.w3.org/2000/svg";

  function build(node, attrs, kids) {
    for (const [key, value] of Object.entries(attrs || {})) {
      if (value === undefined || value === null || value === false) continue;
      if (key === "text") node.textContent = value;
      else if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
      else node.setAttribute(key, value === true ? "" : value);
    }
    node.append(...kids.filter(kid => kid !== null && kid !== undefined));
    return node;
  }
  const html = (name, attrs, ...kids) => build(document.createElement(name), attrs, kids);
  const svg = (name, attrs, ...kids) => build(document.createElementNS(SVG, name), attrs, kids);

  const isNumber = value => typeof value === "number" && Number.isFinite(value);
  const clip = (text, length) => text.length > length ? text.slice(0, length - 1) + "…" : text;
  const scale = (d0, d1, r0, r1) => value => r0 + (d1 === d0 ? 0.5 : (value - d0) / (d1 - d0)) * (r1 - r0);
  const round = value => Math.round(value * 10) / 10;

  function ticks(low, high, count) {
    const span = high - low || 1, raw = span / count, power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 2.5, 5, 10].map(m => m * power).find(s => s >= raw * 0.999);
    const list = [];
    for (let v = Math.ceil(low / step - 1e-9) * step; v <= high + step * 1e-6; v += step) list.push(Math.abs(v) < step * 1e-9 ? 0 : v);
    const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9)) + (step / power === 2.5 && power < 1 ? 1 : 0);
    return list.map(value => ({ at: value, label: value.toFixed(Math.min(digits, 6)) }));
  }

  // Marker shapes by method, so that methods differ without colour.
  const SHAPES = [
    [8, 0], [8, 0], [4, 45], [3, -90], [4, 0], [3, 90], [5, -90], [6, 0], [-5, -90],
  ];
  function marker(kind, x, y, r) {
    const [corners, turn] = SHAPES[kind % SHAPES.length];
    if (corners === 8) return `M${round(x - r)} ${round(y)}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0Z`;
    const star = corners < 0, n = star ? -corners * 2 : corners, points = [];
    for (let i = 0; i < n; i++) {
      const size = r * (star ? (i % 2 ? 0.55 : 1.35) : corners === 3 ? 1.3 : corners === 4 && turn ? 1.2 : 1.2);
      const angle = (turn + i * 360 / n) * Math.PI / 180;
      points.push(`${round(x + size * Math.cos(angle))} ${round(y + size * Math.sin(angle))}`);
    }
    return `M${points.join("L")}Z`;
  }
  const DASHES = ["2 4", "6 5", null, "10 4 2 4"];
  const plotStyle = series => `s${series.colour}${series.style < 2 && series.style !== 0 ? " hollow" : ""}`;

  // The key of a series beside its name: a piece of line with its marker.
  function swatch(series, line = true) {
    return svg("svg", { width: 26, height: 14, viewBox: "0 0 26 14", "aria-hidden": "true", class: plotStyle(series) },
      line ? svg("path", { class: "curve", d: "M1 7H25", "stroke-dasharray": DASHES[series.style] }) : null,
      svg("path", { class: "dot", d: marker(series.colour, 13, 7, 3.6) }));
  }

  // A figure: caption, plot, the same numbers as a table. Redraws itself when its width changes.
  function figure(host, { title, note, label, table, draw }) {
    host.replaceChildren();
    const plot = html("div", { class: "plot" });
    const rows = html("details", {}, html("summary", { text: "The numbers as a table" }), dataTable(table, title));
    host.append(html("figcaption", {}, html("strong", { text: title }), note ? html("span", {}, ...[].concat(note)) : null), plot, rows);
    let drawn = 0;
    const paint = width => {
      const { node, stops, nearest } = draw(Math.max(220, Math.floor(width)));
      node.setAttribute("role", "img");
      node.setAttribute("tabindex", "0");
      node.setAttribute("aria-label", `${label || title}. Arrow keys move through the values; a table with the numbers follows.`);
      plot.replaceChildren(node);
      interact(plot, node, stops, nearest);
    };
    host.repaint = width => { if (width && width !== drawn) { drawn = width; paint(width); } };
    host.repaint(plot.clientWidth || 640);
    watcher.observe(plot);
  }
  const watcher = new ResizeObserver(entries => {
    for (const entry of entries) {
      const host = entry.target.parentElement;
      if (host && host.repaint) host.repaint(Math.floor(entry.contentRect.width));
    }
  });

  function dataTable({ head, body }, title) {
    const line = (cells, tag) => html("tr", {}, ...cells.map((cell, i) => html(tag, { text: cell, scope: tag === "th" ? "col" : null })));
    return html("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Table: ${title}` },
      html("table", { class: "data" }, html("caption", { class: "visually-hidden", text: title }),
        html("thead", {}, line(head, "th")), html("tbody", {}, ...body.map(cells => line(cells, "td")))));
  }

  // Interaction of all charts: stops are positions with text; pointer and arrow keys choose one.
  function interact(plot, node, stops, nearest) {
    if (!stops.length) return;
    const tip = html("div", { class: "tip", hidden: true });
    const live = html("div", { class: "visually-hidden", "aria-live": "polite" });
    const cursor = svg("g", { "pointer-events": "none" });
    node.insertBefore(cursor, node.firstChild);
    plot.append(tip, live);
    let current = -1;
    const width = node.viewBox.baseVal.width;
    function show(index, speak) {
      if (index === current) return;
      current = index;
      const stop = stops[index];
      cursor.replaceChildren(stop.mark());
      tip.replaceChildren(html("strong", { text: stop.title }), html("table", {}, html("tbody", {}, ...stop.lines.map(line =>
        html("tr", {}, html("td", {}, line.series ? swatch(line.series) : null), html("td", { text: line.name }),
          html("td", { text: line.value }), html("td", { class: "extra", text: line.extra || "" }))))));
      tip.hidden = false;
      const ratio = node.clientWidth / width || 1, room = plot.clientWidth - tip.offsetWidth;
      const right = stop.x * ratio + 14;
      tip.style.left = `${Math.max(0, right <= room ? right : stop.x * ratio - tip.offsetWidth - 14)}px`;
      tip.style.top = `${Math.max(-8, stop.y * ratio - (stop.below ? -14 : tip.offsetHeight / 2))}px`;
      if (speak) live.textContent = `${stop.title}: ${stop.lines.map(l => [l.name, l.value, l.extra].filter(Boolean).join(" ")).join("; ")}`;
    }
    function hide() { current = -1; tip.hidden = true; cursor.replaceChildren(); live.textContent = ""; }
    function point(event) {
      const box = node.getBoundingClientRect(), ratio = width / box.width;
      show(nearest(stops, (event.clientX - box.left) * ratio, (event.clientY - box.top) * ratio), false);
    }
    node.addEventListener("pointermove", point);
    node.addEventListener("pointerdown", point);
    // After a touch the values stay on the screen until the next tap elsewhere.
    node.addEventListener("pointerleave", event => { if (event.pointerType !== "touch" && document.activeElement !== node) hide(); });
    node.addEventListener("focus", () => { if (node.matches(":focus-visible")) show(0, true); });
    node.addEventListener("blur", hide);
    node.addEventListener("keydown", event => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      const next = event.key === "Home" ? 0 : event.key === "End" ? stops.length - 1 : step ? current + step : null;
      if (event.key === "Escape") hide();
      if (next === null) return;
      event.preventDefault();
      show(Math.min(stops.length - 1, Math.max(0, next)), true);
    });
  }
  const least = (stops, distance) => stops.reduce((best, stop, i) => distance(stop) < distance(stops[best]) ? i : best, 0);
  const byX = (stops, x) => least(stops, stop => Math.abs(stop.x - x));
  const byY = (stops, x, y) => least(stops, stop => Math.abs((stop.row ?? stop.y) - y));
  const byPoint = (stops, x, y) => least(stops, stop => Math.hypot(stop.x - x, stop.y - y));

  function canvas(width, height) { return svg("svg", { viewBox: `0 0 ${width} ${height}` }); }

  function yAxis(node, box, y, list, label) {
    for (const tick of list) {
      node.append(svg("line", { class: "grid", x1: box.left, x2: box.right, y1: y(tick.at), y2: y(tick.at) }),
        svg("text", { x: box.left - 8, y: y(tick.at) + 4, "text-anchor": "end", text: tick.label }));
    }
    if (label) node.append(svg("text", { x: 0, y: 11, text: label }));
  }

  function xAxis(node, box, x, list, label) {
    const wide = Math.max(...list.map(tick => tick.label.length), 1) * 7 + 10;
    const every = Math.ceil(wide * list.length / Math.max(1, box.right - box.left + wide));
    node.append(svg("line", { class: "axis", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom }));
    list.forEach((tick, i) => {
      if (i % every) return;
      node.append(svg("text", { x: x(tick.at), y: box.bottom + 18, "text-anchor": "middle", text: tick.label }));
    });
    if (label) node.append(svg("text", { x: (box.left + box.right) / 2, y: box.bottom + 38, "text-anchor": "middle", text: label }));
  }

  // series: [{label, colour, style, points: [{x, y, low, high, extra, value}]}]; xs: [{at, label}] for named positions, else numeric
  function lines(host, spec) {
    const points = spec.series.flatMap(s => s.points).filter(p => isNumber(p.y));
    const ends = points.flatMap(p => [p.y, p.low, p.high]).filter(isNumber);
    const free = spec.joined === false, room = list => 0.07 * (Math.max(...list) - Math.min(...list)) || 0.05 * Math.abs(list[0]) || 0.01;
    const yRoom = free ? room(ends) : 0, xRoom = free ? room(points.map(p => p.x)) : 0;
    const low = spec.low ?? (free ? Math.max(0, Math.min(...ends) - yRoom) : Math.min(0, ...ends)), high = Math.max(spec.high ?? 0, ...ends) + yRoom || 1;
    const left = Math.min(...points.map(p => p.x)), x0 = left < 0 ? left - xRoom : Math.max(0, left - xRoom), x1 = Math.max(...points.map(p => p.x), x0 + 1e-9) + xRoom;
    const draw = width => {
      const height = Math.round(Math.min(spec.tall || 340, Math.max(230, width * 0.62)));
      const node = canvas(width, height), box = { left: 46, right: width - 12, top: 26, bottom: height - 46 };
      const top = high === spec.high ? high : high + 0.03 * (high - low), yTicks = ticks(low, top, width < 480 ? 4 : 6);
      const x = scale(x0, x1, box.left + 14, box.right - 14), y = scale(low, top, box.bottom, box.top);
      yAxis(node, box, y, yTicks, spec.yLabel);
      xAxis(node, box, x, spec.xs || ticks(x0, x1, width < 480 ? 4 : 8), spec.xLabel);
      for (const link of spec.links || []) node.append(svg("path", { class: `link s${link.colour}`, d: `M${x(link.from[0])} ${y(link.from[1])}L${x(link.to[0])} ${y(link.to[1])}` }));
      const layers = spec.series.map(series => {
        const layer = svg("g", { class: plotStyle(series) }), shown = series.points.filter(p => isNumber(p.y));
        if (spec.joined !== false && series.line !== false) {
          const band = shown.filter(p => isNumber(p.low) && isNumber(p.high));
          if (band.length > 1) layer.append(svg("path", { class: "band", d: `M${[...band.map(p => [p.x, p.high]), ...band.reverse().map(p => [p.x, p.low])].map(([a, b]) => `${round(x(a))} ${round(y(b))}`).join("L")}Z` }));
          layer.append(svg("path", { class: "curve", "stroke-dasharray": DASHES[series.style], d: `M${shown.map(p => `${round(x(p.x))} ${round(y(p.y))}`).join("L")}` }));
        }
        for (const p of shown) {
          if (spec.whiskers && isNumber(p.low)) layer.append(svg("path", { class: "whisker", d: `M${x(p.x)} ${y(p.low)}V${y(p.high)}` }));
          layer.append(svg("path", { class: "dot", d: marker(series.colour, x(p.x), y(p.y), series.size || (free ? 5 : 3.6)) }));
        }
        return layer;
      });
      node.append(...layers);
      if (spec.joined === false) names(node, spec.series.map(s => ({ ...s, x: x(s.points[0].x), y: y(s.points[0].y) })), box);
      const entry = (series, p) => ({ series, name: series.label, value: p.value, extra: p.extra });
      const stops = spec.joined === false
        ? spec.series.map(s => ({ x: x(s.points[0].x), y: y(s.points[0].y), title: s.label, lines: s.points[0].lines,
            mark: () => svg("circle", { class: "spot", cx: x(s.points[0].x), cy: y(s.points[0].y), r: 13 }) }))
        : [...new Set(points.map(p => p.x))].sort((a, b) => a - b).map(at => {
            const values = spec.series.flatMap(s => s.points.filter(p => p.x === at && isNumber(p.y)).map(p => [s, p])).sort((a, b) => b[1].y - a[1].y);
            return { x: x(at), y: (box.top + box.bottom) / 2, title: spec.titleOf(at), lines: values.map(([s, p]) => entry(s, p)),
              mark: () => svg("line", { class: "cursor", x1: x(at), x2: x(at), y1: box.top, y2: box.bottom }) };
          });
      return { node, stops, nearest: spec.joined === false ? byPoint : byX };
    };
    figure(host, { ...spec, draw });
  }

  // Names next to the points of a scatter chart, only those that do not overlap.
  function names(node, points, box) {
    const taken = points.map(p => [p.x - 6, p.y - 6, p.x + 6, p.y + 6]);
    for (const p of points) {
      const text = clip(p.label, 14), w = text.length * 7 + 2;
      const spots = [[p.x + 10, p.y + 4], [p.x - 10 - w, p.y + 4], [p.x - w / 2, p.y - 11], [p.x - w / 2, p.y + 20]];
      const free = spots.find(([a, b]) => a >= box.left && a + w <= box.right + 12 && b > box.top - 8 && b < box.bottom - 2 &&
        taken.every(t => a + w < t[0] || a > t[2] || b < t[1] || b - 11 > t[3]));
      if (!free) continue;
      taken.push([free[0], free[1] - 11, free[0] + w, free[1]]);
      node.append(svg("text", { class: "strong", x: free[0], y: free[1], text }));
    }
  }

  // rows: [{label, bars: [{series, y, low, high, value, extra}]}]
  function bars(host, spec) {
    const draw = width => {
      const count = Math.max(1, ...spec.rows.map(row => row.bars.length)), thick = count > 6 ? 7 : count > 3 ? 9 : 12;
      const pitch = count * (thick + 2) + 16, left = Math.min(width * 0.32, 12 + 7 * Math.max(...spec.rows.map(r => Math.min(22, r.label.length))));
      const height = spec.rows.length * pitch + 40, node = canvas(width, height), box = { left, right: width - 14, top: 4, bottom: height - 36 };
      const ends = spec.rows.flatMap(r => r.bars.flatMap(b => [b.y, b.high, b.low])).filter(isNumber);
      const low = Math.min(0, ...ends), list = ticks(low, Math.max(...ends, low + 1e-3), width < 480 ? 4 : 8);
      const x = scale(low, Math.max(...ends, list.at(-1).at), box.left, box.right);
      for (const tick of list) node.append(svg("line", { class: "grid", x1: x(tick.at), x2: x(tick.at), y1: box.top, y2: box.bottom }), svg("text", { x: x(tick.at), y: box.bottom + 16, "text-anchor": "middle", text: tick.label }));
      node.append(svg("text", { x: (box.left + box.right) / 2, y: box.bottom + 33, "text-anchor": "middle", text: spec.xLabel }));
      const stops = spec.rows.map((row, i) => {
        const top = box.top + i * pitch + 8;
        node.append(svg("text", { class: "strong", x: box.left - 10, y: top + (pitch - 16) / 2 + 4, "text-anchor": "end", text: clip(row.label, Math.floor((left - 10) / 6.6)) }));
        row.bars.forEach((bar, k) => {
          if (!isNumber(bar.y)) return;
          const y = top + k * (thick + 2), layer = svg("g", { class: `bar ${plotStyle(bar.series)}` });
          layer.append(svg("rect", { x: Math.min(x(0), x(bar.y)), y, width: Math.max(1, Math.abs(x(bar.y) - x(0))), height: thick, rx: 2 }));
          if (isNumber(bar.low)) layer.append(svg("path", { class: "whisker", d: `M${x(bar.low)} ${y + thick / 2}H${x(bar.high)}M${x(bar.low)} ${y + 2}v${thick - 4}M${x(bar.high)} ${y + 2}v${thick - 4}` }));
          node.append(layer);
        });
        return { x: x(Math.max(...row.bars.map(b => b.y || 0))), y: top + pitch / 2, row: top + pitch / 2 - 8, title: row.label,
          lines: row.bars.map(b => ({ series: b.series, name: b.series.label, value: b.value, extra: b.extra })),
          mark: () => svg("rect", { class: "spot", x: box.left, y: top - 6, width: box.right - box.left, height: pitch - 4, rx: 4 }) };
      });
      return { node, stops, nearest: byY };
    };
    figure(host, { ...spec, draw });
  }

  const short = n => n >= 1e6 ? `${(n / 1e6).toFixed(n < 1e7 ? 1 : 0)}M` : n >= 1e4 ? `${Math.round(n / 1e3)}k` : n >= 1e3 ? `${(n / 1e3).toFixed(1)}k` : `${Math.round(n)}`;

  // bins: [{low, high, weight, confidence, outcome}], confidence and outcome as means
  function reliability(host, spec) {
    const draw = width => {
      const side = Math.min(width - 54, 400), strip = 58, height = side + strip + 72;
      const node = canvas(width, height), left = Math.round((width - side - 8) / 2) + 18, box = { left, right: left + side, top: 24, bottom: 24 + side };
      const x = scale(0, 1, box.left, box.right), y = scale(0, 1, box.bottom, box.top), list = ticks(0, 1, 5);
      yAxis(node, box, y, list);
      node.append(svg("text", { x: box.left - 30, y: 11, text: "accuracy" }));
      const most = Math.max(...spec.bins.map(b => b.weight), 1), foot = box.bottom + 8 + strip;
      const stops = spec.bins.map(bin => {
        const a = x(bin.low) + 1, w = Math.max(1, x(bin.high) - x(bin.low) - 2), over = bin.confidence > bin.outcome;
        const weight = 0.16 + 0.5 * Math.sqrt(bin.weight / most); // bins of few samples are pale
        node.append(svg("rect", { class: over ? "over" : "under", opacity: weight.toFixed(2), x: a, width: w, y: y(Math.max(bin.confidence, bin.outcome)), height: Math.abs(y(bin.confidence) - y(bin.outcome)) }));
        node.append(svg("line", { class: "hit", x1: a, x2: a + w, y1: y(bin.outcome), y2: y(bin.outcome) }));
        const tall = strip * 0.72 * bin.weight / most;
        node.append(svg("rect", { class: "box", x: a, width: w, y: foot - tall, height: Math.max(tall, 0.75) }));
        if (w > 17) node.append(svg("text", { class: "small", x: a + w / 2, y: foot - tall - 3, "text-anchor": "middle", text: short(bin.weight) }));
        return { x: a + w / 2, y: y(bin.outcome), title: `Confidence ${bin.low.toFixed(2)} to ${bin.high.toFixed(2)}`,
          lines: [{ name: "confidence", value: bin.confidence.toFixed(3) }, { name: "accuracy", value: bin.outcome.toFixed(3) }, { name: "samples", value: bin.weight.toLocaleString("en") }],
          mark: () => svg("rect", { class: "spot", x: a - 1, width: w + 2, y: box.top, height: foot - box.top }) };
      });
      node.append(svg("path", { class: "ideal", d: `M${x(0)} ${y(0)}L${x(1)} ${y(1)}` }));
      xAxis(node, { ...box, bottom: foot }, x, list, "confidence; grey: number of samples");
      return { node, stops, nearest: byX };
    };
    figure(host, { ...spec, draw });
  }

  // bins as above; confidence and accuracy are the means
  function histogram(host, spec) {
    const draw = width => {
      const height = 190, node = canvas(width, height), box = { left: 40, right: width - 12, top: 22, bottom: height - 42 };
      const total = spec.bins.reduce((sum, b) => sum + b.weight, 0) || 1, most = spec.most || 1;
      const x = scale(0, 1, box.left, box.right), y = scale(0, most, box.bottom, box.top);
      yAxis(node, box, y, ticks(0, most, 4).map(t => ({ at: t.at, label: `${Math.round(100 * t.at)} %` })));
      const layer = svg("g", { class: `bar ${plotStyle(spec.series)}` });
      const stops = spec.bins.map(bin => {
        const share = bin.weight / total, a = x(bin.low) + 1, w = Math.max(1, x(bin.high) - x(bin.low) - 2);
        layer.append(svg("rect", { x: a, width: w, y: y(share), height: Math.max(0.75, box.bottom - y(share)), rx: 1.5 }));
        return { x: a + w / 2, y: y(share), title: `Confidence ${bin.low.toFixed(2)} to ${bin.high.toFixed(2)}`,
          lines: [{ name: "share of samples", value: `${(100 * share).toFixed(1)} %` }, { name: "samples", value: bin.weight.toLocaleString("en") }, { name: "accuracy", value: bin.outcome.toFixed(3) }],
          mark: () => svg("rect", { class: "spot", x: a - 1, width: w + 2, y: box.top, height: box.bottom - box.top }) };
      });
      node.append(layer);
      const close = Math.abs(x(spec.confidence) - x(spec.accuracy)) < 110;
      for (const [value, name, dash, other] of [[spec.confidence, "confidence", null, spec.accuracy], [spec.accuracy, "accuracy", "4 3", spec.confidence]]) {
        if (!isNumber(value)) continue;
        const anchor = close ? (value > other || (value === other && name === "confidence") ? "start" : "end") : "middle";
        node.append(svg("line", { class: "hit", x1: x(value), x2: x(value), y1: box.top - 4, y2: box.bottom, "stroke-dasharray": dash }),
          svg("text", { class: "strong", x: Math.min(box.right - (anchor === "start" ? 96 : 46), Math.max(box.left + (anchor === "end" ? 96 : 46), x(value))), y: box.top - 8, "text-anchor": anchor, text: `${name} ${value.toFixed(2)}` }));
      }
      xAxis(node, box, x, ticks(0, 1, 5), "confidence");
      return { node, stops, nearest: byX };
    };
    figure(host, { ...spec, draw });
  }

  return { html, svg, isNumber, lines, bars, reliability, histogram, swatch, marker };
})();
