// Draw each section separately: an error in one is reported and does not stop the others.
for (const section of [
  summary,
  contents,
  howItWorks,
  accuracy,
  trace,
  confusion,
  calibration,
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
