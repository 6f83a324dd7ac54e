/** Grammars of session ids. Plain, so that a worker or a start loads no schema for them. */

/** What this release issues: `s-` and a ULID. */
export const ISSUED_SESSION_ID = /^s-[0-9A-HJKMNP-TV-Z]{26}$/
/** Ids that may become a path below a root: only what a daemon issues, ULIDs and the numbers of releases before ours. */
export const PATH_SAFE_SESSION_ID = /^s-([0-9A-HJKMNP-TV-Z]{26}|[0-9]{1,20})$/
/** One component of a path or of a unit's name, whoever made it: it never leaves its directory, and never hides in it. */
export const SESSION_ID_PART = /^(?!\.)[A-Za-z0-9._:-]{1,128}$/
