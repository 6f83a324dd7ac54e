/**
 * The real agents, pinned: where they are kept, how they are installed, and the home each one needs so that it starts
 * into its prompt, asks before it runs a command, and calls nothing but the fake model server.
 */
import { execFile } from 'node:child_process'
import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'

export type AgentName = 'claude' | 'codex' | 'pi'

interface Pinned {
  name: AgentName
  package: string
  version: string
}
export const PINNED = {
  claude: { name: 'claude', package: '@anthropic-ai/claude-code', version: '2.1.332' },
  'claude-2.1.197': { name: 'claude', package: '@anthropic-ai/claude-code', version: '2.1.197' },
  codex: { name: 'codex', package: '@openai/codex', version: '0.171.0' },
  pi: { name: 'pi', package: '@mariozechner/pi-coding-agent', version: '0.73.1' },
} as const satisfies Record<string, Pinned>
export type AgentKey = keyof typeof PINNED

const INSTALL_MS = 600_000

/** Folder the agents are kept in between runs: up to 430 MB each. */
export function cacheFolder(): string {
  const { POHUNEK_TEST_AGENTS: own, XDG_CACHE_HOME: cache } = process.env
  return own || join(cache || join(homedir(), '.cache'), 'pohunek-test-agents')
}

/** Path of the agent's program; installs it when it is not kept yet. */
export async function programOf(key: AgentKey): Promise<string> {
  const { name, package: source, version } = PINNED[key]
  const folder = join(cacheFolder(), `${name}-${version}`)
  const program = join(folder, 'node_modules/.bin', name)
  if (existsSync(program)) return program
  const fresh = `${folder}.${process.pid}`
  mkdirSync(fresh, { recursive: true })
  try {
    await promisify(execFile)('npm', ['i', '--no-audit', '--no-fund', '--prefix', fresh, `${source}@${version}`], {
      timeout: INSTALL_MS,
    })
    renameSync(fresh, folder) // a half installed one is never taken for whole
  } finally {
    rmSync(fresh, { recursive: true, force: true })
  }
  return program
}

export interface HomeOptions {
  home: string
  /** Project folder; made, and trusted unless told otherwise. */
  cwd: string
  /** The fake model server. */
  url: string
  /** Commands are run unasked. */
  unasked?: boolean
  untrusted?: boolean
  /** As after installing: the agent's own first screens stand before its prompt. */
  firstRun?: boolean
  /** Claude suggests another way of working before its prompt. */
  suggestion?: boolean
}
export interface Prepared {
  args: string[]
  env: Record<string, string>
}

const TOKEN = 'made-up-token-for-tests'

/** Writes the agent's files into `home`; answers how to start it. Everything of the agent's stays below the home. */
export function prepare(name: AgentName, options: HomeOptions): Prepared {
  for (const directory of [options.home, options.cwd, join(options.home, 'tmp')])
    mkdirSync(directory, { recursive: true, mode: 0o700 })
  const made = { claude, codex, pi }[name](options)
  const at = (path: string): string => join(options.home, path)
  return {
    args: made.args,
    env: {
      HOME: options.home,
      SHELL: '/bin/bash',
      LANG: 'C.UTF-8',
      TMPDIR: at('tmp'),
      XDG_CONFIG_HOME: at('.config'),
      XDG_DATA_HOME: at('.local/share'),
      XDG_STATE_HOME: at('.local/state'),
      XDG_CACHE_HOME: at('.cache'),
      GIT_CONFIG_NOSYSTEM: '1',
      NO_PROXY: '127.0.0.1,localhost',
      ...made.env,
    },
  }
}

function write(file: string, content: string | object): void {
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
  writeFileSync(file, typeof content === 'string' ? content : `${JSON.stringify(content, null, 2)}\n`, { mode: 0o600 })
}

function claude({ home, cwd, url, unasked, untrusted, firstRun, suggestion }: HomeOptions): Prepared {
  write(join(home, '.claude/settings.json'), {
    permissions: { defaultMode: 'default' },
    ...(unasked ? { skipDangerousModePermissionPrompt: true } : {}),
    spinnerTipsEnabled: false,
  })
  const project = {
    allowedTools: [],
    mcpServers: {},
    hasTrustDialogAccepted: true,
    hasCompletedProjectOnboarding: true,
    projectOnboardingSeenCount: 4,
  }
  // Each of these stands for a first screen that would stand in the way.
  const known = {
    numStartups: 10,
    hasCompletedOnboarding: true,
    lastOnboardingVersion: '99.0.0',
    lastReleaseNotesSeen: '99.0.0',
    theme: 'dark',
    autoUpdates: false,
    bypassPermissionsModeAccepted: unasked === true,
    hasAcknowledgedCostThreshold: true,
    hasSeenTasksHint: true,
    hasSeenAutoDefaultNudge: !suggestion,
    projects: untrusted ? {} : { [cwd]: project },
  }
  if (!firstRun) write(join(home, '.claude.json'), known)
  return {
    args: ['--model', 'claude-sonnet-4-6', ...(unasked ? ['--dangerously-skip-permissions'] : [])],
    env: {
      ANTHROPIC_BASE_URL: url,
      ANTHROPIC_AUTH_TOKEN: TOKEN,
      DISABLE_AUTOUPDATER: '1',
      DISABLE_TELEMETRY: '1',
      DISABLE_ERROR_REPORTING: '1',
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
      CLAUDE_CODE_DISABLE_OFFICIAL_MARKETPLACE_AUTOINSTALL: '1',
      // As root it refuses to run commands unasked outside of one.
      ...(unasked ? { IS_SANDBOX: '1' } : {}),
    },
  }
}

function codex({ home, cwd, url, unasked, untrusted, firstRun }: HomeOptions): Prepared {
  const config = [
    'model = "test-model"',
    'model_provider = "test"',
    `approval_policy = "${unasked ? 'never' : 'on-request'}"`,
    `sandbox_mode = "${unasked ? 'danger-full-access' : 'read-only'}"`,
    'check_for_update_on_startup = false',
    '[features]',
    'daemon_auto_start = false', // the turns would run in a background process that outlives the terminal
    'plugins = false', // these three call other hosts
    'remote_plugin = false',
    'apps = false',
    '[tui]',
    'show_tooltips = false',
    '[analytics]',
    'enabled = false',
    '[feedback]',
    'enabled = false',
    '[model_providers.test]',
    'name = "test"',
    `base_url = ${JSON.stringify(`${url}/v1`)}`,
    'env_key = "TEST_API_KEY"',
    'wire_api = "responses"',
    ...(untrusted ? [] : [`[projects.${JSON.stringify(cwd)}]`, 'trust_level = "trusted"']),
    '',
  ]
  mkdirSync(join(home, '.codex'), { recursive: true, mode: 0o700 })
  if (!firstRun) write(join(home, '.codex/config.toml'), config.join('\n'))
  return {
    args: unasked ? ['--dangerously-bypass-approvals-and-sandbox'] : [],
    env: { CODEX_HOME: join(home, '.codex'), TEST_API_KEY: TOKEN },
  }
}

function pi({ home, url }: HomeOptions): Prepared {
  const directory = join(home, '.pi/agent')
  const model = {
    id: 'test-model',
    name: 'Test model',
    reasoning: false,
    input: ['text'],
    contextWindow: 1_000_000,
    maxTokens: 8_000,
    cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 },
  }
  const provider = { baseUrl: `${url}/v1`, api: 'openai-completions', apiKey: 'TEST_API_KEY', models: [model] }
  write(join(directory, 'models.json'), { providers: { test: provider } })
  write(join(directory, 'settings.json'), {
    defaultProvider: 'test',
    defaultModel: 'test-model',
    lastChangelogVersion: '99.0.0',
  })
  return {
    args: ['--provider', 'test', '--model', 'test-model'],
    env: {
      PI_CODING_AGENT_DIR: directory,
      PI_OFFLINE: '1',
      PI_TELEMETRY: '0',
      PI_SKIP_VERSION_CHECK: '1',
      TEST_API_KEY: TOKEN,
    },
  }
}
