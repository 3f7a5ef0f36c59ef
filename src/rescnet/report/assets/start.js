// Every section on its own: one that fails says so and leaves the others standing.
for (const section of [
  headline,
  contents,
  howItWorks,
  accuracy,
  story,
  confusion,
  gallery,
  filterPictures,
  cost,
  settings,
]) {
  try {
    section();
  } catch (error) {
    window.dispatchEvent(new ErrorEvent('error', { message: `${section.name}: ${error.message}`, error }));
  }
}
root.dataset.ready = 'true';
