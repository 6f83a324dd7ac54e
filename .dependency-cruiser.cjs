// Holds the direction of imports (docs/ARCHITECTURE.md). A failing rule names the seam to use instead.
module.exports = {
  forbidden: [
    {
      name: 'no-cycles',
      severity: 'error',
      from: {},
      to: { circular: true, viaOnly: { dependencyTypesNot: ['type-only'] } },
    },
    {
      name: 'protocol-stands-alone',
      comment: 'protocol/ is what two processes speak',
      severity: 'error',
      from: { path: '^protocol/' },
      to: { path: '^(kernel|platform|plugins|worker|cli|client|main|test)/|^node:', dependencyTypesNot: ['type-only'] },
    },
    {
      name: 'platform-below-kernel',
      severity: 'error',
      from: { path: '^platform/' },
      to: { path: '^(kernel|plugins|worker|cli|client|main)/', pathNot: '^kernel/(clock|scope)\\.ts$' },
    },
    {
      name: 'kernel-knows-no-plugin',
      severity: 'error',
      from: { path: '^kernel/' },
      to: { path: '^(plugins|main|worker|cli|client)/' },
    },
    {
      name: 'worker-knows-no-daemon',
      comment: 'worker uses protocol, platform and kernel scope/clock/log only',
      severity: 'error',
      from: { path: '^worker/' },
      to: { path: '^(plugins|main|cli|client)/|^kernel/', pathNot: '^kernel/(scope|clock|log)\\.ts$' },
    },
    {
      name: 'plugins-meet-at-api',
      comment: 'reach another plugin through its api.ts or contract.ts',
      severity: 'error',
      from: { path: '^plugins/([^/]+)/' },
      to: { path: '^plugins/[^/]+/', pathNot: ['^plugins/$1/', '/(api|contract|types)\\.ts$'] },
    },
    {
      name: 'plugins-below-main',
      severity: 'error',
      from: { path: '^plugins/' },
      to: { path: '^(main|cli|client|worker)/' },
    },
    {
      name: 'clients-see-contracts',
      comment: "the CLI and the client import protocol/ and the plugins' contract.ts, types.ts and commands.ts",
      severity: 'error',
      from: { path: '^(cli|client)/' },
      to: {
        path: '^(kernel|plugins|worker)/',
        pathNot: ['^plugins/[^/]+/(contract|commands|types)\\.ts$'],
        dependencyTypesNot: ['type-only'],
      },
    },
  ],
  options: {
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
    doNotFollow: { path: 'node_modules' },
    enhancedResolveOptions: { extensions: ['.ts', '.js', '.mjs', '.cjs', '.json'] },
  },
}
