import tseslint from 'typescript-eslint'

const owned = [
  { name: 'setTimeout', message: 'use Clock or Scope.after (kernel/clock.ts, kernel/scope.ts)' },
  { name: 'setInterval', message: 'use Clock or Scope.after (kernel/clock.ts, kernel/scope.ts)' },
]

export default tseslint.config(
  { ignores: ['dist/', 'node_modules/', 'test/fixtures/', '**/*.mjs', '**/*.cjs', '*.js'] },
  ...tseslint.configs.recommendedTypeChecked,
  {
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    rules: {
      '@typescript-eslint/no-floating-promises': 'error',
      '@typescript-eslint/no-misused-promises': 'error',
      '@typescript-eslint/switch-exhaustiveness-check': ['error', { considerDefaultExhaustiveForUnions: true }],
      '@typescript-eslint/no-explicit-any': 'error',
      '@typescript-eslint/no-unused-vars': [
        'error',
        { argsIgnorePattern: '^_', varsIgnorePattern: '^_', caughtErrors: 'none' },
      ],
      '@typescript-eslint/require-await': 'off',
      '@typescript-eslint/prefer-promise-reject-errors': 'off',
      '@typescript-eslint/only-throw-error': 'off',
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true, allowBoolean: true }],
      'no-restricted-globals': ['error', ...owned],
    },
  },
  { files: ['kernel/clock.ts', 'test/**'], rules: { 'no-restricted-globals': 'off' } },
  {
    files: ['test/**'],
    rules: {
      '@typescript-eslint/no-unsafe-assignment': 'off',
      '@typescript-eslint/no-unsafe-member-access': 'off',
      '@typescript-eslint/no-unsafe-argument': 'off',
      '@typescript-eslint/no-unsafe-call': 'off',
      '@typescript-eslint/no-unsafe-return': 'off',
    },
  },
)
