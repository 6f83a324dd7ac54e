import { expect, test } from 'vitest'
import { isSupported, parseRelease, releaseIn, releaseName } from '../../plugins/packages/version.ts'

const CLAUDE = '{version} (Claude Code)'
const HERMES = 'Hermes Agent v{version} {annotation}'

test.each([
  [undefined, '1.2.3\n', '1.2.3'],
  [undefined, '  1.2.3 \r\nmore\n', '1.2.3'],
  [undefined, 'v1.2.3\n', undefined],
  [undefined, '1.2\n', undefined],
  [undefined, '1.2.3.4\n', undefined],
  [undefined, '01.2.3\n', undefined],
  [undefined, '1.2.3-rc.1\n', undefined],
  [undefined, '1.2.3+build\n', undefined],
  [undefined, '\n1.2.3\n', undefined],
  [undefined, '', undefined],
  [undefined, '\u0661.2.3', undefined],
  [CLAUDE, '2.1.300 (Claude Code)', '2.1.300'],
  [CLAUDE, '2.1.300 (Claude Code)\r\n', '2.1.300'],
  [CLAUDE, '2.1.300 (Claude Code) x\n', undefined],
  [CLAUDE, '2.1.300\n', undefined],
  [CLAUDE, 'x 2.1.300 (Claude Code)\n', undefined],
  ['codex-cli {version}', 'codex-cli 0.171.0\n', '0.171.0'],
  ['codex-cli {version}', 'codex-cli 0.171.0-alpha.1\n', undefined],
  ['codex-cli {version}', `codex-cli 0.171.0${' '.repeat(300)}\n`, undefined],
  [HERMES, 'Hermes Agent v0.20.0 (2026.1.1) · upstream\n', '0.20.0'],
  [HERMES, 'Hermes Agent v0.20.0\n', '0.20.0'],
  [HERMES, 'Hermes Agent v0.20.0x (a)\n', undefined],
])('with the line %s, %j is release %s', (line, output, expected) => {
  const release = releaseIn(output, line === undefined ? {} : { line })
  expect(release && releaseName(release)).toBe(expected)
})

test('a range has its first release and not its last', () => {
  const policy = { args: [], timeoutMs: 1, acceptStderr: false, min: [0, 9, 10] as const, below: [1, 0, 0] as const }
  const supported = ['0.9.9', '0.9.10', '0.10.0', '0.99.99', '1.0.0', '1.0.1'].filter((it) => {
    const release = parseRelease(it)
    return release !== undefined && isSupported(release, policy)
  })
  expect(supported).toEqual(['0.9.10', '0.10.0', '0.99.99'])
})
