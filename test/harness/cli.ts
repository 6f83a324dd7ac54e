/** Runs bin/pohunek as a user's script does: arguments in, exit code and both streams out. */
import { spawn } from 'node:child_process'
import { bin, type Env } from './roots.ts'
import { systemClock } from '../../kernel/clock.ts'

export interface CliResult {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  readonly stdout: string
  readonly stderr: string
}

export interface RunOptions {
  readonly env: Env
  readonly cwd: string
  readonly stdin?: string | Buffer
  readonly deadlineMs?: number
}

/** Runs a program to its end. Over the deadline it is killed and the call fails with what it wrote. */
export function run(program: string, args: readonly string[], options: RunOptions): Promise<CliResult> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { cwd: options.cwd, env: options.env, stdio: ['pipe', 'pipe', 'pipe'] })
    const out: Buffer[] = []
    const err: Buffer[] = []
    const deadlineMs = options.deadlineMs ?? 20_000
    const texts = (): { stdout: string; stderr: string } => ({
      stdout: Buffer.concat(out).toString(),
      stderr: Buffer.concat(err).toString(),
    })
    const timer = systemClock.after(deadlineMs, () => {
      child.kill('SIGKILL')
      const { stdout, stderr } = texts()
      reject(new Error(`${program} ${args.join(' ')} did not end within ${deadlineMs} ms\n${stdout}\n${stderr}`))
    })
    child.stdout.on('data', (chunk: Buffer) => void out.push(chunk))
    child.stderr.on('data', (chunk: Buffer) => void err.push(chunk))
    child.stdin.on('error', () => undefined) // the program may end before it read all
    child.stdin.end(options.stdin ?? '')
    child.once('error', (problem) => {
      timer[Symbol.dispose]()
      reject(problem)
    })
    child.once('close', (code, signal) => {
      timer[Symbol.dispose]()
      resolve({ code, signal, ...texts() })
    })
  })
}

export const runCli = (args: readonly string[], options: RunOptions): Promise<CliResult> =>
  run(bin('pohunek'), args, options)
