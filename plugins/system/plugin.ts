import { definePlugin } from '../../kernel/plugin.ts'
import { systemChecks } from './checks.ts'
import contract from './contract.ts'
import { readCapabilities } from './methods/capabilities.ts'
import { doctor } from './methods/doctor.ts'
import { health } from './methods/health.ts'

export default definePlugin({
  contract,
  needs: {},
  setup({ kernel, scope }) {
    for (const check of systemChecks(kernel)) scope.own(check.name, kernel.diagnostics.add(check))
    return {
      methods: {
        'daemon.health': health(kernel.daemonVersion),
        'daemon.doctor': doctor(kernel.diagnostics),
        'daemon.capabilities': readCapabilities(kernel),
      },
    }
  },
})
