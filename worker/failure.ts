import type { WorkerError, WorkerErrorCode } from '../protocol/worker/messages.ts'

/** The one throw that becomes an error answer with its own code; anything else is our bug and becomes runtime_fault. */
export class WorkerFailure extends Error {
  readonly code: WorkerErrorCode
  readonly retryable: boolean

  constructor(code: WorkerErrorCode, message: string, retryable = false) {
    super(message)
    this.name = 'WorkerFailure'
    this.code = code
    this.retryable = retryable
  }

  toBody(): WorkerError {
    return { code: this.code, message: this.message, retryable: this.retryable }
  }
}
