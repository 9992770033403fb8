"use strict";
// The page is a view: the server makes every part of it, and says what changes. What programs print comes as data and is put into text nodes.
(() => {
	const body = document.body, page = body.dataset.page;
	if (page !== "overview" && page !== "process") return;
	const find = (selector, from = document) => from.querySelector(selector);
	const status = find("#status"), screen = find("#screen"), keys = find("#keys");
	const seat = Array.from(crypto.getRandomValues(new Uint8Array(16)), b => b.toString(16).padStart(2, "0")).join("");

	// Actions are numbered and kept until the server has answered: after a lost connection they are sent again, and it does each once.
	let socket = null, pause = 0, number = 0, pending = [], told = 0;
	const mostPending = 1000;

	function say(text, lost) {
		clearTimeout(told);
		status.textContent = text;
		status.classList.toggle("lost", !!lost);
		if (text && !lost) told = setTimeout(() => say(""), 8000);
	}

	function connect() {
		socket = new WebSocket((location.protocol === "https:" ? "wss://" : "ws://") + location.host + body.dataset.base + "live");
		socket.onopen = () => {
			pause = 0;
			say("");
			known.clear();
			socket.send(JSON.stringify({seat, session: body.dataset.session || "", process: Number(body.dataset.process || 0), query: body.dataset.query || ""}));
			for (const action of pending) socket.send(JSON.stringify(action));
		};
		socket.onmessage = event => take(JSON.parse(event.data));
		socket.onclose = () => {
			say("The connection is lost. Trying again…", true);
			pause = Math.min(pause * 2 || 250, 5000);
			setTimeout(connect, pause);
		};
	}

	function act(action) {
		if (pending.length >= mostPending) {
			say("Too much waits to be sent; the last input was left out.", true);
			return;
		}
		action.n = ++number;
		pending.push(action);
		if (socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify(action));
	}

	function take(message) {
		if ("done" in message) {
			pending = pending.filter(action => action.n > message.done);
			if (message.error) say(message.error);
		}
		if (message.blocks) {
			waiting.push(message.blocks);
			if (!pressed || waiting.length > mostWaiting) show();
		}
		if (message.screen) draw(message.screen);
	}

	// Parts of the page. What is replaced between the two halves of a click would not get it, so they wait for the second half.

	let pressed = false, waiting = [];
	const mostWaiting = 40; // the second half may have been elsewhere

	function show() {
		for (const blocks of waiting) for (const [name, change] of Object.entries(blocks)) update(name, change);
		waiting = [];
	}

	document.addEventListener("pointerdown", () => pressed = true);
	for (const over of ["pointerup", "pointercancel"]) document.addEventListener(over, () => {
		pressed = false;
		setTimeout(show); // after the click
	});

	const known = new Set(); // containers that have got all their parts on this connection
	const answered = new Set(); // questions that were answered here
	const seen = new Map(); // when a question came

	function node(id, html) {
		const template = document.createElement("template");
		template.innerHTML = html; // made by the server's templates, which escape what programs and models say
		const made = template.content.firstElementChild;
		made.id = id;
		return made;
	}

	function update(name, change) {
		const container = find("#" + name);
		if (!container) return;
		for (const [id, html] of Object.entries(change.set)) {
			const old = document.getElementById(id), made = node(id, html);
			if (!old) {
				container.append(made);
				if (name === "questions") seen.set(id, Date.now());
				continue;
			}
			if (known.has(name) || old.outerHTML !== made.outerHTML) replace(old, made);
		}
		if (change.order) arrange(name, container, change.order);
		known.add(name);
		ages();
		if (name === "tools") keyboard();
	}

	// replace keeps the focus on the button that it was on.
	function replace(old, made) {
		const focus = old.contains(document.activeElement) ? document.activeElement.dataset : null;
		old.replaceWith(made);
		if (!focus) return;
		const same = Array.from(made.querySelectorAll("button, a")).find(b => b.dataset.do === focus.do && b.dataset.signal === focus.signal && b.dataset.kind === focus.kind);
		if (same) same.focus();
	}

	function arrange(name, container, order) {
		const keep = new Set(order);
		for (const child of Array.from(container.children)) {
			if (keep.has(child.id)) continue;
			child.remove();
			if (name === "questions" && !answered.has(child.id)) say("A question was answered elsewhere, or withdrawn.");
		}
		let at = container.firstElementChild;
		for (const id of order) {
			const child = document.getElementById(id);
			if (!child) continue;
			if (child === at) at = at.nextElementSibling;
			else container.insertBefore(child, at);
		}
	}

	function ages() {
		for (const time of document.querySelectorAll("time")) {
			const at = new Date(time.dateTime);
			if ("clock" in time.dataset) {
				time.textContent = at.toLocaleTimeString();
				continue;
			}
			const s = Math.max(0, Math.round((Date.now() - at) / 1000));
			const text = s < 100 ? s + " s" : s < 6000 ? Math.floor(s / 60) + " min" : Math.floor(s / 3600) + " h " + Math.floor(s / 60) % 60 + " min";
			if (time.textContent !== text) time.textContent = text;
		}
	}

	document.addEventListener("click", event => {
		const button = event.target.closest("button[data-do]");
		if (!button) {
			if (keys && screen.contains(event.target) && mine && !getSelection().toString()) keys.focus();
			return;
		}
		const d = button.dataset;
		if (d.confirm && !confirm(d.confirm)) return;
		const action = {do: d.do, session: d.session, signal: d.signal, grant: d.grant};
		if (d.do === "decide") {
			const reason = find("[data-reason]", button.closest(".question"));
			Object.assign(action, {question: d.question, kind: d.kind, text: reason ? reason.value : ""});
			answered.add(button.closest(".question").id);
		}
		act(action);
	});

	document.addEventListener("keydown", event => {
		if (event.ctrlKey || event.altKey || event.metaKey || event.target.closest("input, textarea")) return;
		if (event.key === "/" && find("[data-key='/']")) {
			event.preventDefault();
			find("[data-key='/']").focus();
			return;
		}
		// A figure answers the question that has the focus, or the only one, but not one that has only just appeared under the finger.
		const all = document.querySelectorAll(".question");
		const question = event.target.closest(".question") || (all.length === 1 ? all[0] : null);
		const button = question && /^[1-9]$/.test(event.key) && find(`[data-key="${event.key}"]`, question);
		if (button && Date.now() - (seen.get(question.id) || 0) > 700) button.click();
	});

	// The screen.

	let mine = false, applicationCursor = false, bracketedPaste = false, cursor = null, sent = "";
	const rows = [];

	function span([text, cols, foreground, background, look]) {
		const made = document.createElement("span");
		made.textContent = text;
		if (look) made.className = look;
		if (foreground) made.style.color = foreground;
		if (background) made.style.background = background;
		made.style.width = cols + "ch";
		return made;
	}

	// paint shows a row, with the cursor if that is in it: the span under it is cut in three.
	function paint(y) {
		const line = screen.children[y];
		if (!line) return;
		const spans = rows[y] || [], shown = cursor && cursor[2] && cursor[0] === y ? cursor[1] : -1;
		const made = [];
		let x = 0;
		for (const s of spans) {
			const [text, cols, ...look] = s, plain = text.length === cols && /^[\x20-\x7e]*$/.test(text);
			if (shown >= x && shown < x + cols) {
				if (plain) {
					const at = shown - x;
					if (at) made.push(span([text.slice(0, at), at, ...look]));
					made.push(mark(span([text[at], 1, ...look])));
					if (at + 1 < cols) made.push(span([text.slice(at + 1), cols - at - 1, ...look]));
				} else made.push(mark(span(s)));
			} else made.push(span(s));
			x += cols;
		}
		if (shown >= x) {
			if (shown > x) made.push(span([" ".repeat(shown - x), shown - x, "", "", ""]));
			made.push(mark(span([" ", 1, "", "", ""])));
		}
		line.replaceChildren(...made);
	}

	function mark(made) {
		made.classList.add("cursor");
		return made;
	}

	function draw(s) {
		while (screen.children.length > s.rows) screen.lastElementChild.remove();
		while (screen.children.length < s.rows) screen.append(document.createElement("div"));
		screen.style.minWidth = "min(100%, calc(" + s.cols + "ch + 12px))";
		rows.length = s.rows;
		const stale = new Set(Object.keys(s.set).map(Number));
		for (const [y, spans] of Object.entries(s.set)) rows[y] = spans;
		if (cursor) stale.add(cursor[0]);
		cursor = s.cursor;
		stale.add(cursor[0]);
		for (const y of stale) paint(y);
		applicationCursor = s.applicationCursor;
		bracketedPaste = s.bracketedPaste;
		find("#title").textContent = s.title;
		const notes = [];
		if (s.approximate) notes.push("Part of the output was left out: the screen is approximate until the program clears it.");
		if (s.note) notes.push(s.note[0].toUpperCase() + s.note.slice(1) + ".");
		find("#notes").textContent = notes.join(" ");
	}

	// The keyboard.

	function keyboard() {
		const now = !!find("[data-do=return]");
		screen.classList.toggle("mine", now);
		if (!keys) return;
		keys.disabled = !now;
		if (now && !mine) {
			mine = now;
			sent = "";
			resize();
			keys.focus();
		}
		mine = now;
	}

	// resize gives the terminal the size of this window while the person has the keyboard.
	function resize() {
		if (!mine) return;
		const probe = span(["M".repeat(10), 10, "", "", ""]), line = document.createElement("div");
		probe.style.width = "auto";
		line.append(probe);
		screen.append(line);
		const box = probe.getBoundingClientRect();
		line.remove();
		const fit = (room, each) => Math.min(Math.max(Math.floor(room / each), 1), 1000);
		const size = {rows: fit(innerHeight * 0.7, box.height), cols: fit(screen.parentElement.clientWidth - 16, box.width / 10)};
		const text = JSON.stringify(size);
		if (text !== sent) {
			sent = text;
			act({do: "resize", size});
		}
	}

	function type(text) {
		const most = 8192; // characters of one message
		for (let i = 0; i < text.length;) {
			let end = Math.min(i + most, text.length);
			if (end < text.length && /[\ud800-\udbff]/.test(text[end - 1])) end--; // a pair stays together
			act({do: "type", text: text.slice(i, end)});
			i = end;
		}
	}

	const letters = {ArrowUp: "A", ArrowDown: "B", ArrowRight: "C", ArrowLeft: "D", Home: "H", End: "F", F1: "P", F2: "Q", F3: "R", F4: "S"};
	const numbers = {Insert: 2, Delete: 3, PageUp: 5, PageDown: 6, F5: 15, F6: 17, F7: 18, F8: 19, F9: 20, F10: 21, F11: 23, F12: 24};
	const plain = {Enter: "\r", Backspace: "\x7f", Escape: "\x1b", Tab: "\t"};

	// sequence is what a terminal like xterm sends for a key; empty for one that is not the program's.
	function sequence(event) {
		const {key, shiftKey, altKey, ctrlKey} = event, modifiers = 1 + shiftKey + 2 * altKey + 4 * ctrlKey;
		if (event.metaKey || event.isComposing) return "";
		if (key in letters) {
			if (modifiers > 1) return "\x1b[1;" + modifiers + letters[key];
			return (applicationCursor || key[0] === "F" ? "\x1bO" : "\x1b[") + letters[key];
		}
		if (key in numbers) return "\x1b[" + numbers[key] + (modifiers > 1 ? ";" + modifiers : "") + "~";
		if (key === "Tab" && shiftKey) return "\x1b[Z";
		if (key in plain) return (altKey ? "\x1b" : "") + plain[key];
		if (key.length > 2) return "";
		if (ctrlKey && !event.getModifierState("AltGraph")) {
			if (shiftKey && /^[A-Za-z]$/.test(key)) return ""; // the browser's own, such as copying
			const code = key === " " || key === "@" ? 0 : "abcdefghijklmnopqrstuvwxyz[\\]^_".indexOf(key.toLowerCase()) + 1;
			return code > 0 || key === " " || key === "@" ? (altKey ? "\x1b" : "") + String.fromCharCode(code) : "";
		}
		return (altKey && !event.getModifierState("AltGraph") ? "\x1b" : "") + key;
	}

	if (keys) {
		let taken = false;
		keys.addEventListener("keydown", event => {
			if (event.ctrlKey && event.shiftKey && event.key === " ") { // out of the terminal, for those without a mouse
				event.preventDefault();
				find("[data-do=return]").focus();
				return;
			}
			const text = sequence(event);
			taken = !!text;
			if (!taken) return;
			event.preventDefault();
			type(text);
		});
		keys.addEventListener("keypress", event => { // programs that press keys for people send it even then
			if (taken) event.preventDefault();
		});
		// What an input method or the keyboard of a telephone writes. Nothing stays in the field.
		keys.addEventListener("input", event => {
			if (event.isComposing) return;
			if (keys.value) type(keys.value.replace(/\r?\n/g, "\r"));
			keys.value = "";
		});
		keys.addEventListener("compositionend", () => {
			if (keys.value) type(keys.value);
			keys.value = "";
		});
		keys.addEventListener("paste", event => {
			event.preventDefault();
			const text = event.clipboardData.getData("text").replace(/\r?\n/g, "\r");
			type(bracketedPaste ? "\x1b[200~" + text.replaceAll("\x1b", "") + "\x1b[201~" : text);
		});
		addEventListener("resize", resize);
	}

	setInterval(ages, 1000);
	connect();
})();
