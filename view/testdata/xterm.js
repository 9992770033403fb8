// Shows output on terminals of @xterm/headless. A request is a line of JSON: the parts of a recording, each with the size that the terminal has in it
// and the output in base64. The answer is one, too: what the terminal shows at the end of each part. Without the package this exits with 3.
"use strict"

let Terminal
try {
  ({ Terminal } = require("@xterm/headless"))
} catch (error) {
  console.error(error.message)
  process.exit(3)
}

// colour is 0, or as package view has it: 1 << 24 with an index, or 2 << 24 with red, green and blue.
function colour(isIndex, isDirect, value) {
  return isIndex ? (1 << 24) | value : isDirect ? (2 << 24) | value : 0
}

// style is how a cell looks: the colours of the text, the background and the underline, the attributes as bits, the kind of underline.
function style(cell) {
  const attributes = [cell.isBold(), cell.isDim(), cell.isItalic(), cell.isBlink(), cell.isInverse(), cell.isInvisible(), cell.isStrikethrough(), cell.isOverline()]
  return [
    colour(cell.isFgPalette(), cell.isFgRGB(), cell.getFgColor()),
    colour(cell.isBgPalette(), cell.isBgRGB(), cell.getBgColor()),
    attributes.reduce((bits, on, i) => bits | (on ? 1 << i : 0), 0),
    cell.isUnderline() ? cell.getUnderlineStyle() : 0,
  ]
}

function shown(terminal, title) {
  const buffer = terminal.buffer.active, modes = terminal.modes
  const rows = []
  for (let y = 0; y < terminal.rows; y++) {
    const line = buffer.getLine(buffer.baseY + y), runs = []
    let last = ""
    for (let x = 0; x < terminal.cols; x++) {
      const cell = line.getCell(x)
      if (cell.getWidth() === 0) {
        continue
      }
      const looks = style(cell)
      if (String(looks) !== last) {
        runs.push({ Style: looks, Text: [] })
        last = String(looks)
      }
      runs[runs.length - 1].Text.push(cell.getChars() || " ")
    }
    rows.push(runs)
  }
  const is = [buffer.type === "alternate", modes.wraparoundMode, modes.insertMode, modes.originMode, modes.applicationCursorKeysMode, modes.applicationKeypadMode,
    modes.mouseTrackingMode !== "none"]
  return { X: buffer.cursorX, Y: buffer.cursorY, Is: is, Title: title, Rows: rows }
}

async function main() {
  for await (const request of require("readline").createInterface({ input: process.stdin })) {
    const parts = JSON.parse(request), answer = []
    let title = ""
    const terminal = new Terminal({
      cols: parts[0].Cols, rows: parts[0].Rows, allowProposedApi: true, scrollback: 0,
      windowsPty: { backend: "conpty", buildNumber: 20000 }, // with this lines do not flow
    })
    terminal.onTitleChange((to) => { title = to })
    for (const part of parts) {
      terminal.resize(part.Cols, part.Rows)
      await new Promise((done) => terminal.write(Buffer.from(part.Output, "base64"), done))
      answer.push(shown(terminal, title))
    }
    terminal.dispose()
    console.log(JSON.stringify(answer))
  }
}

main()
