import js from '@eslint/js';
import tseslint from 'typescript-eslint';

const noUnusedVars = ['error', { ignoreRestSiblings: true }];

export default tseslint.config(
  { ignores: ['build', 'dist'] },
  js.configs.recommended,
  {
    files: ['src/**/*.ts', 'tests/**/*.ts'],
    extends: [tseslint.configs.recommendedTypeChecked],
    languageOptions: { parserOptions: { projectService: true } },
    rules: {
      '@typescript-eslint/no-unused-vars': noUnusedVars,
      // A payload is any JSON, and so are the lines of inboxd.
      '@typescript-eslint/no-explicit-any': 'off',
      '@typescript-eslint/no-unsafe-argument': 'off',
      '@typescript-eslint/no-unsafe-assignment': 'off',
      '@typescript-eslint/no-unsafe-member-access': 'off',
      '@typescript-eslint/no-unsafe-return': 'off',
    },
  },
  {
    files: ['**/*.js'],
    languageOptions: { globals: { console: false, process: false, Buffer: false, URL: false, performance: false } },
    rules: { 'no-unused-vars': noUnusedVars },
  },
);
