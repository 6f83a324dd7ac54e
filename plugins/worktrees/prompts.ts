/** Prompts: text with `${title}` and `${body}`, filled in by whoever has the work item. */
import { MAX_INPUT_TEXT_BYTES } from '../../protocol/limits.ts'
import { checkName, looked, readFirst, type Layer, type LayerFile } from './config-layers.ts'
import { faults } from './faults.ts'

/** What session.input takes: a longer one could never be sent. */
const MAX_PROMPT_BYTES = MAX_INPUT_TEXT_BYTES

/** Throws invalid_name, prompt_not_found, path_escape, config_read_failed. */
export async function readPrompt(layers: readonly Layer[], name: string): Promise<LayerFile> {
  checkName('prompt', name)
  const path = `prompts/${name}.tmpl`
  const found = await readFirst(layers, path, MAX_PROMPT_BYTES)
  if (found === undefined) throw faults.prompt_not_found({ name, looked: looked(layers, path) })
  return found
}
