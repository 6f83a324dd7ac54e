/** Wire limits and defaults (contract: environment.md §4). Bytes unless the name says otherwise. */

/** One NDJSON line, both directions, newline excluded. A longer line closes the connection. */
export const MAX_LINE_BYTES = 1_048_576
export const MAX_ID_BYTES = 128
/** Room a success envelope may take around its payload: the longest prefix plus the longest id. */
const ENVELOPE_OVERHEAD_BYTES = '{"v":4294967295,"id":"","ok":}'.length + MAX_ID_BYTES
/** Largest serialized result of session.screen and session.read; 1,048,418. */
export const MAX_RESULT_BYTES = MAX_LINE_BYTES - ENVELOPE_OVERHEAD_BYTES
/** Raw bytes of one session.output answer: base64 of it plus the other keys fit one line. */
export const MAX_OUTPUT_BYTES = 783_240
export const DEFAULT_CLI_OUTPUT_BYTES = 16_384
export const MAX_INPUT_TEXT_BYTES = 262_144
export const MAX_READ_LINES = 1_000
export const SCREEN_MAX_ROWS = 200
export const SCREEN_MAX_COLS = 500
export const MAX_WAIT_MS = 8_000
/** Sessions one session.wait_turn may name (contract/environment.md §4). */
export const MAX_TURN_TARGETS = 32
/** session.wait_turn (contract/methods.md): default and ceiling of its timeout. */
export const TURN_WAIT_DEFAULT_MS = 300_000
export const TURN_WAIT_CEILING_MS = 1_800_000
export const MAX_WAITERS = 128
export const MAX_WAITERS_PER_SESSION = 8
export const ATTACH_TOKEN_TTL_MS = 10_000
export const STREAM_RESULT_TTL_MS = 60_000
export const STREAM_RESULT_CAPACITY = 128
export const MAX_SESSION_NAME_BYTES = 128
export const METADATA_MAX_KEYS = 32
export const METADATA_MAX_KEY_BYTES = 64
export const METADATA_MAX_VALUE_BYTES = 4_096
export const METADATA_MAX_TOTAL_BYTES = 16_384
export const OUTPUT_HISTORY_BYTES = 10_000_000
export const MAX_OUTPUT_HISTORY_BYTES = 268_435_456
export const SUBSCRIBER_QUEUE_BYTES = 1_000_000
export const MAX_SUBSCRIBER_QUEUE_BYTES = 67_108_864
export const WRITE_DEDUP_ENTRIES = 4_096
export const TERMINAL_RETENTION_MS = 24 * 3_600_000
export const STOP_GRACE_MS = 500
export const SWEEP_GRACE_MS = 5_000
export const WORKER_CONNECT_MS = 10_000
export const WORKER_CONNECT_RETRY_MS = 100
export const WORKER_INITIALIZE_MS = 45_000
export const WORKER_EXIT_TIMEOUT_MS = 30_000
/** rows × cols of one worker terminal, scrollback included (12 bytes a cell in the emulator). */
export const TERMINAL_MAX_CELLS = 4_000_000
export const SCROLLBACK_ROWS = 1_000
/** Below two columns a wide glyph cannot be placed; smaller requests are raised to this. */
export const TERMINAL_MIN_COLS = 2
export const CLIENT_CONNECT_MS = 5_000
export const CLIENT_REQUEST_MS = 5_000
/** A client's deadline on a waiting call is the wait plus this. */
export const WAIT_HEADROOM_MS = 1_000
export const INPUT_STALL_MS = 10_000
export const INPUT_STARTUP_GRACE_MS = 5_000
/** Silent start-up bound for a client that did not opt into the host's full grace. */
export const INPUT_SILENT_GRACE_MS = 500
export const INPUT_SUBMIT_DELAY_MS = 150
/** Of one argument on Linux, its NUL excluded (MAX_ARG_STRLEN - 1). */
export const MAX_ARGUMENT_BYTES = 131_071
export const ENVIRONMENT_MAX_ENTRIES = 256
export const ENVIRONMENT_MAX_NAME_BYTES = 128
export const ENVIRONMENT_MAX_VALUE_BYTES = 32_768
export const ENVIRONMENT_MAX_TOTAL_BYTES = 40_960
