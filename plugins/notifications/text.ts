/** Text of reports made plain: bounded, without anything that drives a terminal or a desktop notice. Pure. */

export const MAX_TITLE_CHARS = 160
export const MAX_BODY_CHARS = 4_096

// Whole control sequences first, so that their parameters do not stay behind as text: OSC, DCS, APC, PM and SOS to their
// end, CSI, then two-character escapes.
const SEQUENCES =
  /(?:\u001b[\]PX^_]|[\u0090\u0098\u009d-\u009f])[^\u0007\u001b\u009c\n]*(?:\u0007|\u009c|\u001b\\)?|(?:\u001b\[|\u009b)[0-?]*[ -/]*[@-~]?|\u001b[ -/]*[0-~]?/g
const BREAKS = /\r\n?|[\u0085\u2028\u2029\u000b\u000c]/g
// C0 but tab and newline, DEL, C1, and the marks that turn the writing direction.
const CONTROLS = /[\u0000-\u0008\u000e-\u001f\u007f-\u009f\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069]/g
// What nobody sees: zero-width spaces and operators, soft hyphens, tags and the variation selectors that carry data.
const INVISIBLE =
  /[\u00ad\u180e\u200b\u2060-\u2065\u206a-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}\u{e0100}-\u{e01ef}]/gu
// Joiners shape scripts in a body. In a title only the ones between the parts of an emoji stay.
const JOINERS =
  /\u200c|(?<!\p{Extended_Pictographic}[\ufe0f\u{1f3fb}-\u{1f3ff}]?)\u200d|\u200d(?!\p{Extended_Pictographic})/gu
const LONE_SURROGATES = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g

/** Longest text looked at, in code units: what a bound cuts off need not be read. */
const LOOKED_AT = 8

/** Several lines of plain text, at most `maxChars` characters; a longer one ends with an ellipsis. */
export function plainText(text: string, maxChars: number): string {
  const clean = text
    .slice(0, maxChars * LOOKED_AT)
    .replace(SEQUENCES, '')
    .replace(BREAKS, '\n')
    .replace(CONTROLS, '')
    .replace(INVISIBLE, '')
    .replaceAll('\t', ' ')
    .replace(LONE_SURROGATES, '\ufffd')
    .trim()
  if (clean.length <= maxChars && text.length <= maxChars * LOOKED_AT) return clean
  const characters = [...clean]
  if (characters.length <= maxChars && text.length <= maxChars * LOOKED_AT) return clean
  return `${characters.slice(0, maxChars - 1).join('')}…`
}

/** As `plainText`, on one line. */
export const plainLine = (text: string, maxChars: number): string =>
  plainText(text, maxChars)
    .replace(JOINERS, '')
    .replace(/\s*\n\s*/g, ' ')
    .trim()
