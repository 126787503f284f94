import { afterEach, vi } from 'vitest'

// In each test file, after its own hooks: what a test has put in the place of a function ends with the test.
afterEach(() => void vi.restoreAllMocks())
